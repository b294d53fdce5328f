"""Downloads, against a server on this machine."""

import hashlib
import http.server
import logging
import socket
import threading

import pooch
import pytest

from smc_jax.data import download as downloads
from smc_jax.data.download import ARCHIVES, Archive, data_folder, download, fetch
from smc_jax.data.ratings import DataError

CONTENT = bytes(range(256)) * 1000
CHECKSUM = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    """Answers the k-th request with the k-th of `answers`, and any more with the last."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests = answers, 0

    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data.zip"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        answer = self.server.answers[min(self.server.requests, len(self.server.answers) - 1)]
        self.server.requests += 1
        if answer == "missing":
            self.send_error(404)
            return
        body = b"something else" if answer == "wrong" else CONTENT
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if answer == "cut" else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def serve(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = []

    def start(*answers):
        server = Server(*answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))
        return server

    yield start
    for server, thread in running:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """An address that nobody answers."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/data.zip"


def get(folder, *urls, attempts=2, checksum=CHECKSUM, copies=(), progress=False):
    archive = Archive("data.zip", checksum, urls, copies)
    return download(archive, folder, attempts=attempts, wait=0.01, timeout=60.0, progress=progress)


@pytest.fixture
def log():
    """What reaches the log of pooch, which goes to standard error."""
    records = []
    handler = logging.Handler()
    handler.emit = records.append
    pooch.get_logger().addHandler(handler)
    yield records
    pooch.get_logger().removeHandler(handler)


def test_a_good_file_is_kept_and_not_asked_for_again(tmp_path, serve, capfd, log):
    server = serve("good")
    path = get(tmp_path / "new", server.url())
    assert path == tmp_path / "new" / "data.zip"
    assert path.read_bytes() == CONTENT
    assert get(tmp_path / "new", server.url()) == path
    assert server.requests == 1
    assert capfd.readouterr() == ("", "")
    assert log == []


def test_progress_bar(tmp_path, serve, capfd):
    get(tmp_path, serve("good").url(), progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "256k/256k" in err


def test_md5_does_as_well(tmp_path, serve):
    checksum = "md5:" + hashlib.md5(CONTENT).hexdigest()
    assert get(tmp_path, serve("good").url(), checksum=checksum).read_bytes() == CONTENT


def test_wrong_checksum_leaves_nothing(tmp_path, serve):
    server = serve("wrong")
    with pytest.raises(DataError, match=r"could not download data.zip \(.*: wrong checksum\)"):
        get(tmp_path, server.url(), attempts=3)
    assert server.requests == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("failure", ["cut", "wrong", "missing"])
def test_a_second_attempt_succeeds(tmp_path, serve, failure):
    server = serve(failure, "good")
    assert get(tmp_path, server.url()).read_bytes() == CONTENT
    assert server.requests == 2
    assert [path.name for path in tmp_path.iterdir()] == ["data.zip"]


def test_a_connection_that_is_always_cut_leaves_nothing(tmp_path, serve):
    with pytest.raises(DataError, match=r"ChunkedEncodingError"):
        get(tmp_path, serve("cut").url())
    assert list(tmp_path.iterdir()) == []


def test_mirrors_are_tried_in_turn(tmp_path, serve, nobody):
    first, second = serve("missing"), serve("good")
    assert get(tmp_path, nobody, first.url(), second.url()).read_bytes() == CONTENT
    assert (first.requests, second.requests) == (1, 1)


def test_offline_the_error_says_which_file_to_put_where(tmp_path, serve, nobody, monkeypatch):
    gone = serve("missing").url()
    expected = (
        f"could not download data.zip ({nobody}: ConnectionError; {gone}: HTTPError 404): "
        f"get it elsewhere and put it at {tmp_path / 'data.zip'}"
    )
    with pytest.raises(DataError) as caught:
        get(tmp_path, nobody, gone)
    assert str(caught.value) == expected
    monkeypatch.delenv("SMC_DATA_DIR")
    with pytest.raises(DataError) as caught:
        get(tmp_path, nobody, gone)
    assert str(caught.value) == expected + ", or name its folder by SMC_DATA_DIR"
    (tmp_path / "data.zip").write_bytes(CONTENT)
    assert get(tmp_path, nobody) == tmp_path / "data.zip"


def test_a_file_with_another_checksum_is_replaced_or_named(tmp_path, serve, nobody):
    (tmp_path / "data.zip").write_bytes(b"half of it")
    with pytest.raises(DataError, match=r"data.zip \(the file there has another checksum\)$"):
        get(tmp_path, nobody)
    assert (tmp_path / "data.zip").read_bytes() == b"half of it"
    assert get(tmp_path, serve("good").url()).read_bytes() == CONTENT


def test_a_copy_under_another_name_does_if_its_checksum_does(tmp_path, nobody):
    (tmp_path / "unpacked").mkdir()
    copy = tmp_path / "unpacked" / "data.csv"
    copies = (("unpacked/data.csv", CHECKSUM),)
    copy.write_bytes(CONTENT)
    assert get(tmp_path, nobody, checksum="md5:0", copies=copies) == copy
    copy.write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="could not download"):
        get(tmp_path, nobody, checksum="md5:0", copies=copies)


def test_a_folder_that_cannot_be(tmp_path, nobody):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"file/in: cannot keep data.zip there \(Not a directory\)"):
        get(tmp_path / "file" / "in", nobody)


def test_folder_of_the_environment_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("SMC_DATA_DIR")
    assert data_folder() == pooch.os_cache("smc_jax")


def test_a_folder_of_the_environment_that_is_not_there_is_not_made(monkeypatch, tmp_path):
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"^SMC_DATA_DIR: no such folder as .*none; make it, or "):
        fetch("jester")
    assert list(tmp_path.iterdir()) == []


def test_fetch_by_name(monkeypatch, tmp_path, serve):
    monkeypatch.setenv("SMC_DATA_DIR", str(tmp_path))
    archive = Archive("data.zip", CHECKSUM, (serve("good").url(),))
    monkeypatch.setitem(downloads.ARCHIVES, "jester", archive)
    assert fetch("jester", progress=False).read_bytes() == CONTENT
    with pytest.raises(ValueError, match="name: unknown 'netflix'; choose from jester, ml-100k"):
        fetch("netflix")


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_archive_is_verified_and_jester_has_mirrors(name):
    archive = ARCHIVES[name]
    digits = {"sha256": 64, "md5": 32}
    for checksum in (archive.checksum, *(checksum for _, checksum in archive.copies)):
        algorithm, value = checksum.split(":")
        assert len(value) == digits[algorithm]
        assert int(value, 16) > 0
    assert all(url.startswith("https://") and url.endswith(archive.name) for url in archive.urls)
    assert len(archive.urls) == (2 if name == "jester" else 1)
