"""What the check scripts share: the files of the project, and how a finding is printed."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CODE = (".c", ".h", ".cpp", ".hpp", ".inc", ".cu", ".cuh", ".hip")
NOT_OURS = {".git", "build", "out", "__pycache__"}


def files(suffixes, root=ROOT):
    """Paths relative to root, sorted: what git tracks, and what it does not ignore. Without git,
    everything outside the build folders."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(git, capture_output=True, text=True, check=True).stdout
        names = {name for name in listing.split("\0") if name}
    except (OSError, subprocess.CalledProcessError):
        names = {str(path.relative_to(root)) for path in root.rglob("*")}
    paths = (pathlib.PurePosixPath(name) for name in names)
    return sorted(path for path in paths if path.suffix in suffixes
                  and not NOT_OURS.intersection(path.parts) and (root / path).is_file())


def finish(findings, what):
    """Prints the findings and ends the program: 1 if there are any, else 0."""
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} finding{'s' if len(findings) > 1 else ''}")
        sys.exit(1)
    print(f"ok: {what}")
    sys.exit(0)
