"""Downloads from a local server are complete and verified, or leave no file."""

from __future__ import annotations

import hashlib
import tarfile

import pytest

from crowdwise import datasets
from crowdwise.datasets import download as download_module
from crowdwise.datasets.download import RemoteFile, download, file_checksum, read_archive_members
from crowdwise.errors import CrowdwiseError, FormatError

BODY = bytes(range(256)) * 1000
SHA = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
MD5 = f"md5:{hashlib.md5(BODY).hexdigest()}"

pytestmark = pytest.mark.usefixtures("home")


def test_all_files_come_over_https():
    files = [file for name in datasets.names() for file in datasets._entry(name).files]
    assert files and all(file.url.startswith("https://") for file in files)


@pytest.mark.parametrize("known", [SHA, MD5, None])
def test_a_file_is_downloaded_once(server, tmp_path, known):
    server.files["/a.bin"] = BODY
    file = RemoteFile(f"{server.url}/a.bin", known)
    path = download(file, tmp_path / "new")
    assert path == tmp_path / "new" / "a.bin" and path.read_bytes() == BODY
    assert (tmp_path / "new" / "a.bin.sha256").read_text().strip() == SHA.removeprefix("sha256:")
    assert download(file, tmp_path / "new") == path and len(server.requests) == 1
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.bin", "a.bin.sha256"]


def test_a_wrong_checksum_is_rejected_and_leaves_no_file(server, tmp_path):
    server.files["/a.bin"] = BODY + b"!"
    with pytest.raises(CrowdwiseError, match="has the wrong checksum") as caught:
        download(RemoteFile(f"{server.url}/a.bin", SHA), tmp_path)
    assert SHA in str(caught.value) and sha256(BODY + b"!") in str(caught.value)
    assert list(tmp_path.glob("a.bin*")) == []


def test_a_file_without_published_checksum_must_not_change(server, tmp_path):
    server.files["/a.bin"] = BODY
    file = RemoteFile(f"{server.url}/a.bin")
    download(file, tmp_path).unlink()
    server.files["/a.bin"] = BODY + b"!"
    with pytest.raises(CrowdwiseError, match=r"delete .*a\.bin\.sha256 to accept the new file"):
        download(file, tmp_path)
    (tmp_path / "a.bin.sha256").unlink()
    assert download(file, tmp_path).read_bytes() == BODY + b"!"


def test_a_damaged_file_is_downloaded_again(server, tmp_path):
    server.files["/a.bin"] = BODY
    file = RemoteFile(f"{server.url}/a.bin", SHA)
    download(file, tmp_path).write_bytes(b"damaged")
    assert download(file, tmp_path).read_bytes() == BODY


def test_a_file_copied_by_hand_is_used(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(BODY)
    assert download(RemoteFile(f"{server.url}/a.bin"), tmp_path).read_bytes() == BODY
    assert server.requests == [] and (tmp_path / "a.bin.sha256").exists()


def test_an_interrupted_download_leaves_nothing_under_the_final_name(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "ATTEMPTS", 1)
    server.files["/a.bin"], server.cut["/a.bin"] = BODY, 1000
    with pytest.raises(CrowdwiseError, match="ended after 1,000 of 256,000 bytes"):
        download(RemoteFile(f"{server.url}/a.bin", SHA), tmp_path)
    assert not (tmp_path / "a.bin").exists()


def test_a_download_resumes_after_an_interruption(server, tmp_path):
    server.files["/a.bin"], server.cut["/a.bin"] = BODY, 1000
    assert download(RemoteFile(f"{server.url}/a.bin", SHA), tmp_path).read_bytes() == BODY
    assert server.requests == [("/a.bin", None), ("/a.bin", "bytes=1000-")]


def test_a_partial_file_is_not_resumed_without_a_checksum(server, tmp_path):
    server.files["/a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(b"of an older version")
    assert download(RemoteFile(f"{server.url}/a.bin"), tmp_path).read_bytes() == BODY
    assert server.requests == [("/a.bin", None)]


def test_a_partial_file_longer_than_the_file_is_discarded(server, tmp_path):
    server.files["/a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    assert download(RemoteFile(f"{server.url}/a.bin", SHA), tmp_path).read_bytes() == BODY


def test_a_busy_server_is_retried_a_few_times(server, tmp_path):
    server.files["/a.bin"], server.fails["/a.bin"] = BODY, 2
    assert download(RemoteFile(f"{server.url}/a.bin", SHA), tmp_path).read_bytes() == BODY
    server.fails["/a.bin"] = 99
    with pytest.raises(CrowdwiseError, match=r"503.*tried 3 times"):
        download(RemoteFile(f"{server.url}/a.bin", SHA, saved_as="b.bin"), tmp_path)
    assert len(server.requests) == 6


def test_a_missing_file_is_not_retried(server, tmp_path):
    with pytest.raises(
        CrowdwiseError, match=r"/no.bin could not be downloaded: the server returned 404 .*tried 1 time\)"
    ):
        download(RemoteFile(f"{server.url}/no.bin"), tmp_path)
    assert len(server.requests) == 1 and list(tmp_path.glob("no.bin*")) == []


def test_an_unreachable_server(server, tmp_path):
    server.close()
    with pytest.raises(CrowdwiseError, match=r"could not be downloaded.*save it as .*a.bin"):
        download(RemoteFile(f"{server.url}/a.bin"), tmp_path)
    server.thread.join()


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://127.0.0.1/a.bin", "a.bin"])
def test_urls_other_than_http_are_rejected(tmp_path, url):
    with pytest.raises(CrowdwiseError, match="not an http or https URL"):
        download(RemoteFile(url), tmp_path)


def test_redirects_to_other_schemes_are_rejected(server, tmp_path):
    server.files["/a.bin"], server.redirects["/old"] = BODY, "/a.bin"
    assert download(RemoteFile(f"{server.url}/old", SHA), tmp_path).read_bytes() == BODY
    server.redirects["/bad"] = "ftp://127.0.0.1/a.bin"
    with pytest.raises(CrowdwiseError, match="could not be downloaded"):
        download(RemoteFile(f"{server.url}/bad"), tmp_path)


def test_a_download_over_the_size_limit_is_rejected(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download_module, "MAX_BYTES", 100_000)
    server.files["/a.bin"] = BODY
    with pytest.raises(CrowdwiseError, match="larger than 100,000 bytes"):
        download(RemoteFile(f"{server.url}/a.bin"), tmp_path)
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_are_found_in_any_folder(tmp_path, archive, kind):
    made = archive(tmp_path / f"made.{kind}", {"some/where/a.txt": b"A", "b.txt": b"B", "c.txt": b"C"})
    assert read_archive_members(made, ["a.txt", "b.txt"]) == {"a.txt": b"A", "b.txt": b"B"}
    with pytest.raises(FormatError, match=r"does not contain d\.txt"):
        read_archive_members(made, ["a.txt", "d.txt"])


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("path", ["../a.txt", "x/../../a.txt", "/tmp/a.txt", "..\\a.txt", "C:/a.txt"])
def test_archive_paths_outside_the_archive_are_rejected(tmp_path, archive, kind, path):
    made = archive(tmp_path / f"made.{kind}", {"fine.txt": b"", path: b"A"})
    with pytest.raises(FormatError, match="points outside the archive"):
        read_archive_members(made, ["a.txt"])


def test_links_and_oversized_members_are_rejected(tmp_path, archive, monkeypatch):
    with tarfile.open(tmp_path / "links.tar", "w") as tar:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(FormatError, match=r"does not contain a\.txt"):
        read_archive_members(tmp_path / "links.tar", ["a.txt"])
    monkeypatch.setattr(download_module, "MAX_BYTES", 100)
    with pytest.raises(FormatError, match="unpacks to 101 bytes"):
        read_archive_members(archive(tmp_path / "made.zip", {"a.txt": b"0" * 101}), ["a.txt"])


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_truncated_archive_is_rejected(tmp_path, archive, kind):
    made = archive(tmp_path / f"made.{kind}", {"a.txt": b"A" * 5000})
    made.write_bytes(made.read_bytes()[:60])
    with pytest.raises(FormatError, match="damaged"):
        read_archive_members(made, ["a.txt"])


def sha256(body):
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def test_checksum_uses_the_method_of_the_other_checksum(tmp_path):
    (tmp_path / "a").write_bytes(BODY)
    assert (file_checksum(tmp_path / "a", MD5), file_checksum(tmp_path / "a", SHA)) == (MD5, SHA)
