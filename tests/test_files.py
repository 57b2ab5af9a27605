"""Regular files are replaced as a whole; whatever else a path names is written straight."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crawl.files import is_regular, parse_json, whole_file, write_atomically


def read_in_background(fifo: Path) -> tuple[threading.Thread, list[bytes]]:
    """A thread that reads a pipe to its end, and where to find what it read."""
    found: list[bytes] = []
    reader = threading.Thread(target=lambda: found.append(fifo.read_bytes()), daemon=True)
    reader.start()
    return reader, found


def null_device(path: Path) -> Path:
    """A device like /dev/null of our own."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"")
    except (AttributeError, OSError) as error:
        pytest.skip(f"cannot make a device: {error}")
    return path


class TestRegularFiles:
    def test_nothing_is_seen_until_all_is_written(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("old")
        with pytest.raises(TypeError), whole_file(path) as file:
            file.writelines([b"new", 3])
        assert path.read_text() == "old"
        with whole_file(path) as file:
            file.write(b"new")
            file.flush()
            assert path.read_text() == "old"
        assert path.read_text() == "new"
        assert os.listdir(tmp_path) == ["a.txt"]

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
    def test_permissions_stay(self, tmp_path, mode):
        path = tmp_path / "a.txt"
        path.write_text("old")
        path.chmod(mode)
        write_atomically(path, "new")
        assert stat.S_IMODE(path.stat().st_mode) == mode
        assert path.read_text() == "new"

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
    def test_the_owner_stays(self, tmp_path):
        path = tmp_path / "a.txt"
        path.write_text("old")
        os.chown(path, 12345, 54321)
        path.chmod(0o640)
        write_atomically(path, "new")
        assert (path.stat().st_uid, path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (12345, 54321, 0o640)

    def test_a_link_in_the_place_of_the_temporary_file_is_not_followed(self, tmp_path):
        other = tmp_path / "other"
        other.write_text("precious")
        (tmp_path / f".a.txt.{os.getpid()}.part").symlink_to(other)
        write_atomically(tmp_path / "a.txt", "new")
        assert (other.read_text(), (tmp_path / "a.txt").read_text()) == ("precious", "new")

    def test_errors_name_the_file_that_was_asked_for(self, tmp_path):
        for path, error in (
            (tmp_path / "nowhere" / "a.txt", FileNotFoundError),
            (tmp_path, IsADirectoryError),
            (tmp_path / ("a" * 254), OSError),
        ):
            with pytest.raises(error) as caught:
                write_atomically(path, "new")
            assert caught.value.filename == str(path)
        assert os.listdir(tmp_path) == []


class TestLinks:
    def test_are_followed(self, tmp_path):
        target = tmp_path / "far" / "target.txt"
        target.parent.mkdir()
        target.write_text("old")
        (tmp_path / "middle").symlink_to("far/target.txt")
        (tmp_path / "link").symlink_to(tmp_path / "middle")
        write_atomically(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "middle").is_symlink()
        assert not target.is_symlink()
        assert target.read_text() == "new"
        assert os.listdir(target.parent) == ["target.txt"]

    def test_to_nothing_make_their_target(self, tmp_path):
        (tmp_path / "link").symlink_to("target.txt")
        write_atomically(tmp_path / "link", "new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "target.txt").read_text() == "new"

    def test_in_a_circle_are_refused(self, tmp_path):
        (tmp_path / "a").symlink_to("b")
        (tmp_path / "b").symlink_to("a")
        with pytest.raises(OSError, match="symbolic links"):
            write_atomically(tmp_path / "a", "new")
        assert (tmp_path / "a").is_symlink()

    def test_to_folders_are_refused(self, tmp_path):
        (tmp_path / "link").symlink_to(".")
        with pytest.raises(IsADirectoryError, match="Is a directory; give a file"):
            write_atomically(tmp_path / "link", "new")


class TestOtherThings:
    def test_a_device_stays_one(self, tmp_path):
        device = null_device(tmp_path / "null")
        (tmp_path / "link").symlink_to(device)
        for path in (device, tmp_path / "link"):
            assert not is_regular(path)
            write_atomically(path, "gone")
            assert device.is_char_device()
        assert (tmp_path / "link").is_symlink()
        assert sorted(os.listdir(tmp_path)) == ["link", "null"]

    @pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full")
    def test_a_full_device_says_so(self):
        with pytest.raises(OSError, match="No space left on device"):
            write_atomically(Path("/dev/full"), "new")
        assert Path("/dev/full").is_char_device()

    @pytest.mark.parametrize("is_link", [False, True])
    def test_a_pipe_is_written_to(self, tmp_path, is_link):
        fifo = tmp_path / "fifo"
        os.mkfifo(fifo)
        (tmp_path / "link").symlink_to("fifo")
        reader, found = read_in_background(fifo)
        with whole_file(tmp_path / "link" if is_link else fifo, binary=False) as file:
            file.write("through the pipe")
        reader.join(10)
        assert found == [b"through the pipe"]
        assert fifo.is_fifo()

    @pytest.mark.parametrize("name", ["/dev/fd/{}", "/proc/self/fd/{}"])
    def test_an_open_descriptor_is_written_to_where_it_is(self, tmp_path, name):
        with open(tmp_path / "a.txt", "ab") as file:
            file.write(b"before, ")
            file.flush()
            (tmp_path / "link").symlink_to(name.format(file.fileno()))
            write_atomically(Path(name.format(file.fileno())), "in between, ")
            write_atomically(tmp_path / "link", "again, ")
            file.write(b"after")
        assert (tmp_path / "a.txt").read_bytes() == b"before, in between, again, after"
        assert (tmp_path / "link").is_symlink()

    def test_what_was_printed_before_comes_first(self):
        script = (
            "from pathlib import Path; from crawl.files import write_atomically; print('first');"
            "write_atomically(Path('/dev/stdout'), 'second\\n'); print('third')"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
        assert done.stdout == "first\nsecond\nthird\n"

    def test_a_closed_descriptor_is_refused(self):
        with pytest.raises(OSError, match=r"Bad file descriptor: '/dev/fd/987'"):
            write_atomically(Path("/dev/fd/987"), "new")


def test_json():
    assert parse_json('{"a": [1, 2.5, null, {"b": "c"}]}') == {"a": [1, 2.5, None, {"b": "c"}]}
    assert parse_json(b"[]") == []
    assert parse_json("[" * 100 + "]" * 100) is not None


@pytest.mark.parametrize("depth", [101, 5_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_json_that_is_nested_too_deep(depth, opening, closing):
    inside = "1" if closing == "}" else ""
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        parse_json(depth * opening + inside + depth * closing)


@pytest.mark.parametrize("text", ["", "{", "nothing", b"\xff\xfe\x00", "[" + "9" * 5000 + "]"])
def test_what_is_not_json(text):
    with pytest.raises(ValueError, match=r"."):
        parse_json(text)
