"""Where the commands write: files, devices, pipes, links and the standard output."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest
from rich.table import Table

from crawl.cli.output import STDOUT, check_apart, open_output, print_table, say
from tests.cli.conftest import in_fork


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")
    with pytest.raises(TypeError), open_output(path) as file:
        file.writelines(["new", 3])
    assert path.read_text() == "old"
    with open_output(path) as file:
        file.write("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_dash_is_the_standard_output(capsys):
    with open_output(Path("-")) as file:
        file.write("hello")
    assert capsys.readouterr().out == "hello"


ESCAPES = "\x1b[31mred\x07\x9b1m"


def test_a_terminal_gets_no_codes_from_data(capsys):
    table = Table("class")
    table.add_row(ESCAPES)
    print_table(table)
    say(f"{ESCAPES}\tafter")
    done = capsys.readouterr()
    assert r"\x1b[31mred" in done.out
    assert done.err == "\\x1b[31mred\\x07\\x9b1m\tafter\n"
    assert not {"\x1b", "\x07", "\x9b"} & set(done.out + done.err)


def test_class_names_with_codes(crawl, tiny, tmp_path):
    rows = [f"{'C' * (i + 1)},{ESCAPES if i % 2 else 'plain'}" for i in range(12)]
    (tmp_path / "m.csv").write_text("\n".join(["smiles,y", *rows]))
    words = ["--data.metric", "accuracy", "--data.split", "random", "--out", "run", *tiny]
    trained = crawl("train", "csv", "--data.path", "m.csv", *words)
    assert trained.code == 0
    info = crawl("info", "run")
    assert r"\x1b[31mred" in info.out
    (tmp_path / "m.csv").write_text("\n".join(["smiles,y", *rows]).replace("plain", "other"))
    changed = crawl("evaluate", "run")
    assert changed.code == 2
    for done in (trained, info, changed):
        assert "\x1b" not in done.out + done.err


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no device that is full")
def test_a_full_device_is_named(crawl, writes, tmp_path):
    words, _, _ = writes
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.open("wb").close()
    except (AttributeError, OSError) as error:
        pytest.skip(f"cannot make a device: {error}")
    done = crawl(*words, full)
    assert (done.code, done.err.splitlines()[-1]) == (2, f"crawl: error: {full}: No space left on device")


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no device that is full")
def test_a_full_standard_output_is_named(tmp_path):
    edges = tmp_path / "edges.txt"
    edges.write_text("a b\nb c\nc a\n")
    for words in (["--version"], ["datasets"], ["walk", edges], ["walk", edges, "-o", "/dev/stdout"]):
        name = "/dev/stdout" if "-o" in words else "the standard output"
        done = in_fork(*words, stdout="/dev/full")
        assert done == (2, "", f"crawl: error: {name}: No space left on device\n")


@pytest.fixture(params=["predict", "walk", "walk.npz", "distinguish", "distinguish.pdf"])
def writes(request, tmp_path, csl_run):
    """The words of a command that writes a file, but for its name, how that ends and what the file begins with."""
    command, _, suffix = request.param.partition(".")
    if command == "predict":
        folder = tmp_path / "graphs"
        folder.mkdir()
        edges = "1, 2\n2, 1\n3, 4\n4, 3\n"
        for what, text in {"A": edges, "graph_indicator": "1\n1\n2\n2\n", "graph_labels": "1\n2\n"}.items():
            (folder / f"X_{what}.txt").write_text(text)
        return ["predict", csl_run, folder, "--num-repeats", "1", "-o"], ".csv", b"graph,predicted_skip"
    if command == "walk":
        (tmp_path / "edges.txt").write_text("a b\nb c\nc a\n")
        begin = b"PK" if suffix else b"node_0,node_1"
        return ["walk", tmp_path / "edges.txt", "--num-steps", "3", "-o"], f".{suffix or 'csv'}", begin
    pytest.importorskip("matplotlib")
    words = ["distinguish", "cycle:6", "cycles:3,3", "--windows", "2", "--num-steps", "3", "--picture"]
    return words, f".{suffix or 'png'}", b"%PDF" if suffix else b"\x89PNG"


class TestEveryCommandWithAFile:
    def test_writes_to_a_device_and_leaves_it_one(self, crawl, writes, tmp_path):
        words, suffix, _ = writes
        for name in ("null", f"null{suffix}"):
            try:
                os.mknod(tmp_path / name, stat.S_IFCHR | 0o666, os.makedev(1, 3))
                (tmp_path / name).write_bytes(b"")
            except (AttributeError, OSError) as error:
                pytest.skip(f"cannot make a device: {error}")
            assert crawl(*words, tmp_path / name).code == 0
            assert (tmp_path / name).is_char_device()
        assert not list(tmp_path.glob(".*.part"))

    def test_follows_a_link(self, crawl, writes, tmp_path):
        words, suffix, begin = writes
        target, link = tmp_path / f"target{suffix}", tmp_path / f"link{suffix}"
        link.symlink_to(target.name)
        for _ in range(2):  # to a file that is not there yet, and to one that is
            assert crawl(*words, link).code == 0
            assert link.is_symlink()
            assert target.read_bytes().startswith(begin)

    def test_keeps_the_permissions_of_a_file(self, crawl, writes, tmp_path):
        words, suffix, begin = writes
        out = tmp_path / f"out{suffix}"
        out.write_text("old")
        out.chmod(0o640)
        assert crawl(*words, out).code == 0
        assert out.read_bytes().startswith(begin)
        assert stat.S_IMODE(out.stat().st_mode) == 0o640

    def test_writes_to_a_pipe(self, crawl, writes, tmp_path):
        words, suffix, begin = writes
        fifo = tmp_path / f"fifo{suffix}"
        os.mkfifo(fifo)
        found: list[bytes] = []
        reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
        reader.start()
        assert crawl(*words, fifo).code == 0
        reader.join(10)
        assert found[0].startswith(begin)
        assert fifo.is_fifo()

    def test_refuses_a_folder_in_one_line(self, crawl, writes, tmp_path):
        words, suffix, _ = writes
        for name in ("folder", f"folder{suffix}"):
            (tmp_path / name).mkdir()
            done = crawl(*words, tmp_path / name)
            assert done.code == 2
            assert done.err.splitlines()[-1] == f"crawl: error: {tmp_path / name}: Is a directory; give a file"

    def test_names_a_folder_that_is_not_there(self, crawl, writes, tmp_path):
        words, suffix, _ = writes
        done = crawl(*words, tmp_path / "nowhere" / f"out{suffix}")
        assert done.code == 2
        assert f"nowhere/out{suffix}: " in done.err.splitlines()[-1]
        assert ".part" not in done.err


def test_the_standard_output_of_a_process_is_not_replaced(tmp_path):
    edges, out = tmp_path / "edges.txt", tmp_path / "out.csv"
    edges.write_text("a b\n")
    out.write_text("before\n")
    assert in_fork("walk", edges, "--num-steps", "2", "-o", "/dev/stdout", stdout=str(out)).code == 0
    assert out.read_text() == "before\nnode_0,node_1,node_2\na,b,a\nb,a,b\n"


def test_a_picture_on_the_standard_output_leaves_the_table_to_the_error_stream(capfdbinary):
    from crawl.cli import main

    pytest.importorskip("matplotlib")
    words = "distinguish cycle:6 cycles:3,3 --windows 2 --num-steps 3 --picture -"
    assert main(words.split()) == 0
    captured = capfdbinary.readouterr()
    assert captured.out.startswith(b"\x89PNG")
    assert b"1-WL" in captured.err


def test_a_report_is_printed_and_nothing_is_written(crawl, csl_run, tmp_path):
    done = crawl("report", csl_run, "-o", "-")
    assert done.code == 0
    assert done.err == ""
    assert os.listdir(tmp_path) == []
    assert done.out == crawl("report", csl_run, "-o", "folder").out


def test_a_folder_of_runs_cannot_be_printed(crawl, tmp_path):
    assert "--out - is not possible: a run is a folder of files" in crawl.error("train", "csl", "--out", "-")
    assert os.listdir(tmp_path) == []


def test_an_output_is_apart_from_inputs(tmp_path):
    given, link, other = (tmp_path / name for name in ("given", "link", "other"))
    given.touch()
    other.touch()
    link.symlink_to(given)
    for output in (given, link):
        with pytest.raises(ValueError, match=r"would replace the input \S+given: choose another name"):
            check_apart(output, [tmp_path / "nowhere", given])
    for output in (other, tmp_path / "new", STDOUT, Path("/dev/null")):
        check_apart(output, [given, Path("/dev/null")])
