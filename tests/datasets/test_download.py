"""Downloads against a server on this machine: whole, verified, or not there at all."""

from __future__ import annotations

import hashlib
import tarfile

import pytest

from crowdwise.datasets.download import File, checksum, download, members
from crowdwise.errors import CrowdwiseError, FormatError

pytest_plugins = ["dataset_server"]  # fixtures home, server, serve, archive

BODY = bytes(range(256)) * 1000
SHA = f"sha256:{hashlib.sha256(BODY).hexdigest()}"
MD5 = f"md5:{hashlib.md5(BODY).hexdigest()}"

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize("known", [SHA, MD5, None])
def test_a_file_is_fetched_once(server, tmp_path, known):
    server.files["/a.bin"] = BODY
    file = File(f"{server.address}/a.bin", known)
    path = download(file, tmp_path / "new")
    assert path == tmp_path / "new" / "a.bin" and path.read_bytes() == BODY
    assert (tmp_path / "new" / "a.bin.sha256").read_text().strip() == SHA.removeprefix("sha256:")
    assert download(file, tmp_path / "new") == path and len(server.asked) == 1
    assert sorted(p.name for p in path.parent.iterdir()) == ["a.bin", "a.bin.sha256"]


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server, tmp_path):
    server.files["/a.bin"] = BODY + b"!"
    with pytest.raises(CrowdwiseError, match="is not the file it should be") as caught:
        download(File(f"{server.address}/a.bin", SHA), tmp_path)
    assert SHA in str(caught.value) and checksum_of(BODY + b"!") in str(caught.value)
    assert list(tmp_path.glob("a.bin*")) == []


def test_a_file_without_a_published_checksum_must_stay_the_same(server, tmp_path):
    server.files["/a.bin"] = BODY
    file = File(f"{server.address}/a.bin")
    download(file, tmp_path).unlink()
    server.files["/a.bin"] = BODY + b"!"
    with pytest.raises(CrowdwiseError, match=r"delete .*a\.bin\.sha256 to accept the new one"):
        download(file, tmp_path)
    (tmp_path / "a.bin.sha256").unlink()
    assert download(file, tmp_path).read_bytes() == BODY + b"!"


def test_a_damaged_file_is_fetched_again(server, tmp_path):
    server.files["/a.bin"] = BODY
    file = File(f"{server.address}/a.bin", SHA)
    download(file, tmp_path).write_bytes(b"damaged")
    assert download(file, tmp_path).read_bytes() == BODY


def test_a_file_put_there_by_hand_is_taken(server, tmp_path):
    (tmp_path / "a.bin").write_bytes(BODY)
    assert download(File(f"{server.address}/a.bin"), tmp_path).read_bytes() == BODY
    assert server.asked == [] and (tmp_path / "a.bin.sha256").exists()


def test_an_interrupted_download_leaves_nothing_under_the_final_name(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "TRIES", 1)
    server.files["/a.bin"], server.cut["/a.bin"] = BODY, 1000
    with pytest.raises(CrowdwiseError, match="ended after 1,000 of 256,000 bytes"):
        download(File(f"{server.address}/a.bin", SHA), tmp_path)
    assert not (tmp_path / "a.bin").exists()


def test_the_next_download_goes_on_where_the_last_one_ended(server, tmp_path):
    server.files["/a.bin"], server.cut["/a.bin"] = BODY, 1000
    assert download(File(f"{server.address}/a.bin", SHA), tmp_path).read_bytes() == BODY
    assert server.asked == [("/a.bin", None), ("/a.bin", "bytes=1000-")]


def test_without_a_checksum_no_old_half_is_used(server, tmp_path):
    server.files["/a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(b"of an older version")
    assert download(File(f"{server.address}/a.bin"), tmp_path).read_bytes() == BODY
    assert server.asked == [("/a.bin", None)]


def test_a_part_longer_than_the_file_is_thrown_away(server, tmp_path):
    server.files["/a.bin"] = BODY
    (tmp_path / "a.bin.part").write_bytes(BODY + b"more")
    assert download(File(f"{server.address}/a.bin", SHA), tmp_path).read_bytes() == BODY


def test_a_busy_server_is_asked_a_few_times_only(server, tmp_path):
    server.files["/a.bin"], server.fails["/a.bin"] = BODY, 2
    assert download(File(f"{server.address}/a.bin", SHA), tmp_path).read_bytes() == BODY
    server.fails["/a.bin"] = 99
    with pytest.raises(CrowdwiseError, match=r"503.*tried 3 times"):
        download(File(f"{server.address}/a.bin", SHA, saved_as="b.bin"), tmp_path)
    assert len(server.asked) == 6


def test_a_missing_file_is_told_at_once(server, tmp_path):
    with pytest.raises(CrowdwiseError, match=r"/no.bin could not be fetched: the server answers 404 .*tried 1 time\)"):
        download(File(f"{server.address}/no.bin"), tmp_path)
    assert len(server.asked) == 1 and list(tmp_path.glob("no.bin*")) == []


def test_nobody_at_the_address(server, tmp_path):
    server.close()
    with pytest.raises(CrowdwiseError, match=r"could not be fetched.*save it as .*a.bin"):
        download(File(f"{server.address}/a.bin"), tmp_path)
    server.thread.join()


@pytest.mark.parametrize("address", ["file:///etc/hostname", "ftp://127.0.0.1/a.bin", "a.bin"])
def test_other_addresses_than_http_are_refused(tmp_path, address):
    with pytest.raises(CrowdwiseError, match="not an http or https address"):
        download(File(address), tmp_path)


def test_a_server_cannot_lead_elsewhere_than_http(server, tmp_path):
    server.files["/a.bin"], server.moved["/old"] = BODY, "/a.bin"
    assert download(File(f"{server.address}/old", SHA), tmp_path).read_bytes() == BODY
    server.moved["/bad"] = "ftp://127.0.0.1/a.bin"
    with pytest.raises(CrowdwiseError, match="could not be fetched"):
        download(File(f"{server.address}/bad"), tmp_path)


def test_a_download_has_a_largest_size(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download, "MAX_BYTES", 100_000)
    server.files["/a.bin"] = BODY
    with pytest.raises(CrowdwiseError, match="larger than 100,000 bytes"):
        download(File(f"{server.address}/a.bin"), tmp_path)
    assert not (tmp_path / "a.bin").exists()


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_members_are_found_in_any_folder(tmp_path, archive, kind):
    made = archive(tmp_path / f"made.{kind}", {"some/where/a.txt": b"A", "b.txt": b"B", "c.txt": b"C"})
    assert members(made, ["a.txt", "b.txt"]) == {"a.txt": b"A", "b.txt": b"B"}
    with pytest.raises(FormatError, match=r"holds no d\.txt"):
        members(made, ["a.txt", "d.txt"])


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("path", ["../a.txt", "x/../../a.txt", "/tmp/a.txt", "..\\a.txt", "C:/a.txt"])
def test_paths_that_lead_out_of_an_archive_are_refused(tmp_path, archive, kind, path):
    made = archive(tmp_path / f"made.{kind}", {"fine.txt": b"", path: b"A"})
    with pytest.raises(FormatError, match="leads out of its folder"):
        members(made, ["a.txt"])


def test_links_and_bombs_in_archives_are_not_followed(tmp_path, archive, monkeypatch):
    with tarfile.open(tmp_path / "links.tar", "w") as tar:
        link = tarfile.TarInfo("a.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        tar.addfile(link)
    with pytest.raises(FormatError, match=r"holds no a\.txt"):
        members(tmp_path / "links.tar", ["a.txt"])
    monkeypatch.setattr(download, "MAX_BYTES", 100)
    with pytest.raises(FormatError, match="unpacks to 101 bytes"):
        members(archive(tmp_path / "made.zip", {"a.txt": b"0" * 101}), ["a.txt"])


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_truncated_archive_is_refused(tmp_path, archive, kind):
    made = archive(tmp_path / f"made.{kind}", {"a.txt": b"A" * 5000})
    made.write_bytes(made.read_bytes()[:60])
    with pytest.raises(FormatError, match="damaged"):
        members(made, ["a.txt"])


def checksum_of(body):
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def test_checksum_follows_the_method_asked_for(tmp_path):
    (tmp_path / "a").write_bytes(BODY)
    assert (checksum(tmp_path / "a", MD5), checksum(tmp_path / "a", SHA)) == (MD5, SHA)
