// Whole pages: sizes, warnings, names that are markup.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/assets.hpp"
#include "report/report_page.hpp"
#include "support/sample_captures.hpp"

namespace {

using namespace moert::report;
using moert::testing::sample_capture;
using moert::testing::SampleShape;

bool holds(const std::string& page, const std::string& part) {
  return page.find(part) != std::string::npos;
}

TEST(ReportPage, EverySize) {
  const SampleShape shapes[] = {{.layers = 1, .experts = 1, .top_k = 1, .rows = 1},
                                {.layers = 1, .experts = 8, .top_k = 2, .rows = 0},
                                {.layers = 1, .experts = 8, .top_k = 2, .rows = 1},
                                {.layers = 2, .experts = 8, .top_k = 2, .rows = 100},
                                {.layers = 3, .experts = 2000, .top_k = 4, .rows = 9},
                                {.layers = 200, .experts = 16, .top_k = 2, .rows = 50},
                                {.layers = 3, .experts = 8, .top_k = 2, .rows = 40, .absent = 40}};
  for (const SampleShape& shape : shapes) {
    const std::string page = report_page({sample_capture(shape)});
    const bool drawn = shape.rows > shape.absent;
    EXPECT_EQ(holds(page, "<svg class=\"heatmap\""), drawn)
        << shape.layers << " " << shape.experts << " " << shape.rows;
    EXPECT_EQ(holds(page, "This capture holds no decisions."), !drawn);
    EXPECT_TRUE(page.starts_with("<!doctype html>\n<html lang=\"en\">")) << page.substr(0, 40);
    EXPECT_TRUE(page.ends_with("</html>\n"));
    for (const char* number : {"\"nan", "\"inf", " nan", " inf", "-nan"})
      EXPECT_FALSE(holds(page, number)) << number;
  }
}

TEST(ReportPage, NothingAtAll) {
  EXPECT_TRUE(holds(report_page({}), "No captures."));
  EXPECT_TRUE(holds(report_page({ReportCapture{}}), "unnamed capture"));
}

TEST(ReportPage, LargestModelsStaySmall) {
  const std::string page = report_page({sample_capture(
      {.layers = 94, .experts = 512, .top_k = 10, .rows = 1000000, .dead = 40, .margins = true})});
  EXPECT_LT(page.size(), 1500000U);
  EXPECT_TRUE(holds(page, "94 layers by 512 experts")) << "what a screen reader says";
}

TEST(ReportPage, SameBytesAgain) {
  const ReportCapture capture =
      sample_capture({.layers = 5, .experts = 32, .top_k = 4, .rows = 999, .dead = 3});
  EXPECT_EQ(report_page({capture, capture}), report_page({capture, capture}));
}

TEST(ReportPage, Warnings) {
  ReportCapture capture = sample_capture({.layers = 2, .experts = 8, .top_k = 2, .rows = 1000});
  const auto page = [&] { return report_page({capture}); };
  EXPECT_FALSE(holds(page(), "class=\"notice"));
  EXPECT_TRUE(holds(page(), ">complete<"));
  capture.absent = 1;
  capture.complete = false;
  EXPECT_TRUE(holds(page(), "1 decision is absent."));
  EXPECT_TRUE(holds(page(), "0.0500% of the 2,000"));
  EXPECT_TRUE(holds(page(), ">not complete<"));
  capture.info.lost = 1200;
  EXPECT_TRUE(holds(page(), "1,200 rows were lost."));
  EXPECT_FALSE(holds(page(), "Simulated routing."));
  capture.info.simulated = "uniform";
  EXPECT_TRUE(holds(page(), "Simulated routing."));
  EXPECT_TRUE(holds(page(), ">simulated<"));
  capture = sample_capture({.layers = 2, .experts = 64, .top_k = 2, .rows = 100});
  EXPECT_TRUE(holds(page(), "A short capture.")) << "three slots for an expert";
}

TEST(ReportPage, NamesAreNotMarkup) {
  const std::string page = report_page({moert::testing::hostile_capture()});
  EXPECT_FALSE(holds(page, "<script>document"));
  EXPECT_FALSE(holds(page, "<img"));
  EXPECT_FALSE(holds(page, "\xE2\x80\xA8"));
  EXPECT_FALSE(holds(page, "\xE2\x80\xAE"));
  EXPECT_TRUE(
      holds(page, "&lt;script&gt;document.title=&#39;taken&#39;&lt;/script&gt;&quot;&gt;&lt;img"));
  EXPECT_TRUE(holds(page, "<title>Routing report: &lt;script&gt;"));
}

TEST(ReportPage, Policy) {
  const std::string page =
      report_page({sample_capture({.layers = 2, .experts = 8, .top_k = 2, .rows = 10})});
  EXPECT_TRUE(holds(page, "default-src &#39;none&#39;"));
  EXPECT_TRUE(holds(page, "sha256-" + std::string(kScriptDigest) + "&#39;"));
  EXPECT_TRUE(holds(page, "<style>" + std::string(kStyle) + "</style>"));
  EXPECT_TRUE(holds(page, "<script>" + std::string(kScript) + "</script>"));
  EXPECT_EQ(kStyleDigest.size(), 44U);
  for (const char* outside : {"http:", "https:", " style=\"", " onclick", "unsafe"})
    EXPECT_FALSE(holds(page, outside)) << outside;
}

TEST(ReportPage, SeveralCaptures) {
  const ReportCapture capture =
      sample_capture({.layers = 2, .experts = 8, .top_k = 2, .rows = 100});
  EXPECT_FALSE(holds(report_page({capture}), "<nav"));
  const std::string page = report_page({capture, capture, capture});
  EXPECT_TRUE(holds(page, "<nav"));
  EXPECT_TRUE(holds(page, "Captures of this report"));
  EXPECT_TRUE(holds(page, "id=\"capture-3\""));
  EXPECT_TRUE(holds(page, "<title>Routing report: 3 captures</title>"));
}

TEST(ReportPage, CapturesOfOneModelGoByTheirFiles) {
  std::vector<ReportCapture> captures(
      4, sample_capture({.layers = 1, .experts = 8, .top_k = 2, .rows = 100}));
  const char* paths[] = {"a/one.moert", "a/two.moert", "b/two.moert", "c/three.moert"};
  for (size_t i = 0; i < captures.size(); ++i) captures[i].path = paths[i];
  captures[3].info.model = "another";
  const std::pair<const char*, const char*> links[] = {
      {"1", "one.moert"}, {"2", "a/two.moert"}, {"3", "b/two.moert"}, {"4", "another"}};
  const std::string page = report_page(captures);
  for (const auto& [number, name] : links)
    EXPECT_TRUE(
        holds(page, std::string("<a href=\"#capture-") + number + "\"><bdi>" + name + "</bdi></a>"))
        << name;
}

TEST(ReportPage, LayersThatDiffer) {
  ReportCapture capture = sample_capture({.layers = 2, .experts = 8, .top_k = 2, .rows = 100});
  const ReportCapture other = sample_capture({.layers = 1, .experts = 16, .top_k = 4, .rows = 100});
  capture.layers.push_back(other.layers.front());
  const std::string page = report_page({capture});
  EXPECT_TRUE(holds(page, "<dd>8, 16 <small>k = 2, 4</small>"))
      << page.substr(page.find("class=\"tiles\""), 700);
}

}  // namespace
