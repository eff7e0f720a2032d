"""Frames over real sockets: descriptors, caps, deaths and deadlines, blocking and asyncio alike."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_env.server.frames import FrameError, FrameTimeout, Peer, Stream


@pytest.fixture
def pair() -> Iterator[tuple[Peer, Peer]]:
    left, right = (Peer(sock, 1 << 20) for sock in socket.socketpair())
    yield left, right
    left.close()
    right.close()


def test_frames_arrive_whole_and_in_order(pair: tuple[Peer, Peer]) -> None:
    left, right = pair
    for number in range(3):
        left.send({"number": number, "text": "é" * 1000})
    assert [right.receive(5.0)["number"] for _ in range(3)] == [0, 1, 2]


def test_descriptors_ride_along(pair: tuple[Peer, Peer]) -> None:
    left, right = pair
    read, write = os.pipe()
    left.send({"op": "take"}, [write])
    message, fds = right.receive_with_fds(5.0)
    os.write(fds[0], b"through")
    assert (message, os.read(read, 10)) == ({"op": "take"}, b"through")
    for fd in (read, write, *fds):
        os.close(fd)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("!I", 1 << 30),
        struct.pack("!I", 3) + b"no!",
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 20_000) + b"[" * 20_000,
    ],
    ids=["over the cap", "no JSON", "no object", "deep"],
)
def test_what_is_no_frame_is_refused(pair: tuple[Peer, Peer], data: bytes) -> None:
    left, right = pair
    left.sock.sendall(data)
    with pytest.raises(FrameError):
        right.receive(5.0)


def test_a_closed_peer_and_a_silent_one_differ(pair: tuple[Peer, Peer]) -> None:
    left, right = pair
    with pytest.raises(FrameTimeout):
        right.receive(0.05)
    left.sock.sendall(struct.pack("!I", 100) + b"half")
    with pytest.raises(FrameTimeout):
        right.receive(0.05)
    left.close()
    with pytest.raises(FrameError):
        right.receive(5.0)


def test_a_death_ends_a_wait_though_the_socket_stays_open() -> None:
    left, right = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = os.pidfd_open(process.pid)
    peer = Peer(right, 1 << 20, watch=[handle])
    started = time.monotonic()
    process.kill()
    with pytest.raises(FrameError):
        peer.receive(30.0)
    assert time.monotonic() - started < 20.0
    process.wait(5.0)
    assert process.stdin is not None
    process.stdin.close()
    os.close(handle)
    left.close()
    peer.close()


def test_a_peer_that_does_not_read_ends_a_send_at_its_bound(pair: tuple[Peer, Peer]) -> None:
    left, right = pair
    big = {"big": "x" * 2_000_000}
    started = time.monotonic()
    with pytest.raises(FrameTimeout):
        left.send(big, timeout_s=0.2)
    for _ in range(20):  # one that reads a little now and then does not stretch the bound
        right.sock.recv(1000)
    with pytest.raises(FrameTimeout):
        left.send(big, timeout_s=0.2)
    assert time.monotonic() - started < 8.0


def test_a_peer_that_trickles_does_not_stretch_the_bound(pair: tuple[Peer, Peer]) -> None:
    left, right = pair
    late = time.monotonic() + 20.0

    def trickle() -> None:
        left.sock.sendall(struct.pack("!I", 1 << 20))
        while time.monotonic() < late:
            left.sock.sendall(b"x")

    with ThreadPoolExecutor() as threads:
        trickling = threads.submit(trickle)
        started = time.monotonic()
        with pytest.raises(FrameTimeout):
            right.receive(0.3)
        assert time.monotonic() - started < 8.0
        right.close()
        with pytest.raises(OSError, match="pipe"):
            trickling.result(20.0)


def test_a_big_frame_and_descriptors_pass_a_slow_reader() -> None:
    left, right = (Peer(sock, 8 << 20) for sock in socket.socketpair())
    read, write = os.pipe()
    big = "x" * 4_000_000
    with ThreadPoolExecutor() as threads:
        sending = threads.submit(left.send, {"big": big}, [write], 10.0)
        message, fds = right.receive_with_fds(10.0)
        sending.result(10.0)
    assert (message, len(fds)) == ({"big": big}, 1)
    for fd in (read, write, *fds):
        os.close(fd)
    left.close()
    right.close()


def test_a_death_ends_a_send_though_the_socket_stays_open() -> None:
    left, right = socket.socketpair()
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    handle = os.pidfd_open(process.pid)
    peer = Peer(right, 1 << 20, watch=[handle])
    with ThreadPoolExecutor() as threads:
        sending = threads.submit(peer.send, {"big": "x" * 2_000_000}, (), 30.0)
        time.sleep(0.1)
        process.kill()
        with pytest.raises(FrameError):
            sending.result(5.0)
    process.wait(5.0)
    assert process.stdin is not None
    process.stdin.close()
    os.close(handle)
    left.close()
    peer.close()


async def test_both_kinds_of_end_speak_the_same() -> None:
    left, right = socket.socketpair()
    peer, stream = Peer(left, 1 << 24), await Stream.adopt(right, 1 << 24)
    read, write = os.pipe()
    big = "x" * 3_000_000
    receiving = asyncio.to_thread(peer.receive_with_fds, 10.0)
    _, (message, fds) = await asyncio.gather(stream.send({"big": big}, [write]), receiving)
    assert message == {"big": big}
    assert len(fds) == 1
    peer.send({"back": 1})
    assert await stream.receive() == {"back": 1}
    peer.close()
    with pytest.raises(FrameError):
        await stream.receive()
    await stream.close()
    for fd in (read, write, *fds):
        os.close(fd)
