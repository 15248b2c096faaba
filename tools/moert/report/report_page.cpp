// SPDX-License-Identifier: Apache-2.0
#include "report/report_page.hpp"

#include "report/assets.hpp"
#include "report/balance.hpp"
#include "report/curves.hpp"
#include "report/experts.hpp"
#include "report/heatmap.hpp"
#include "report/html.hpp"
#include "report/numbers.hpp"
#include "report/overview.hpp"

namespace moert::report {
namespace {

// Only this style and this script, and no address to load from or send to: even markup that came through
// escaping by mistake could do nothing.
std::string policy() {
  return "default-src &#39;none&#39;; style-src &#39;sha256-" + std::string(kStyleDigest) +
         "&#39;; script-src &#39;sha256-" + std::string(kScriptDigest) +
         "&#39;; base-uri &#39;none&#39;; form-action &#39;none&#39;";
}

std::string plain_name(const ReportCapture& capture) {
  return escape(capture.info.model.empty() ? capture.path : capture.info.model);
}

std::string title(const std::vector<ReportCapture>& captures) {
  if (captures.size() == 1) return "Routing report: " + plain_name(captures.front());
  return "Routing report: " + counted(static_cast<int64_t>(captures.size()), "capture");
}

std::string head(const std::vector<ReportCapture>& captures) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
         "http-equiv=\"Content-Security-Policy\" content=\"" +
         policy() +
         "\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta "
         "name=\"referrer\" content=\"no-referrer\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
         title(captures) + "</title>\n<style>" + std::string(kStyle) + "</style>\n</head>\n";
}

bool has_decisions(const ReportCapture& capture) {
  for (const capture::LayerStatistics& layer : capture.layers)
    if (layer.load.slots > 0) return true;
  return false;
}

std::string capture_section(const ReportCapture& capture, size_t number) {
  const std::string id = "capture-" + std::to_string(number);
  std::string body = overview(capture);
  if (has_decisions(capture))
    body +=
        heatmap(capture) + balance(capture) + curves(capture) + experts(capture) + pairs(capture);
  else
    body += "<p class=\"none\">This capture holds no decisions.</p>\n";
  return "<section class=\"capture\" id=\"" + id + "\" aria-labelledby=\"" + id +
         "-name\">\n<h2 id=\"" + id + "-name\">" + capture_name(capture) + "</h2>\n" + body +
         "</section>\n";
}

std::string choice(const std::vector<ReportCapture>& captures) {
  std::string markup = "<nav class=\"choice\" aria-label=\"Captures\"><a href=\"#top\">All</a>";
  for (size_t i = 0; i < captures.size(); ++i)
    markup +=
        "<a href=\"#capture-" + std::to_string(i + 1) + "\">" + distinct_name(captures, i) + "</a>";
  return markup + "</nav>\n";
}

}  // namespace

std::string report_page(const std::vector<ReportCapture>& captures) {
  std::string page = head(captures);
  page +=
      "<body id=\"top\">\n<header class=\"top\"><p class=\"mark\">MoERT</p><h1>Routing "
      "report</h1><p class=\"lead\">Which experts the tokens went to, layer by "
      "layer.</p></header>\n";
  if (captures.size() > 1) page += choice(captures);
  page += "<main>\n";
  if (captures.size() > 1)
    page +=
        "<section class=\"comparison\"><h2>Captures</h2>\n" + comparison(captures) + "</section>\n";
  if (captures.empty()) page += "<p class=\"none\">No captures.</p>\n";
  for (size_t i = 0; i < captures.size(); ++i) page += capture_section(captures[i], i + 1);
  page +=
      "</main>\n<footer>Made by moert " MOERT_VERSION
      ". A slot is one of a token&#39;s k choices; a load is counted in slots.</footer>\n<script>";
  page += kScript;
  return page + "</script>\n</body>\n</html>\n";
}

}  // namespace moert::report
