package main

import (
	"encoding/binary"
	"errors"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// pace sends rate requests a second in the one thread of the loop for d, however long the answers take. A request waits
// for a free connection. Latencies count from when a request was due; delays of the loop's own timer do not count
// against the server.
func (l *loop) pace(rate int, d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	interval := time.Second / time.Duration(rate)
	timer, err := l.tick(interval)
	if err != nil {
		return err
	}
	defer syscall.Close(timer) //nolint:errcheck // it holds nothing
	var free []*loopConn
	for _, c := range l.conns {
		free = append(free, c)
	}
	var due []time.Time // requests that wait for a connection
	start := time.Now()
	next, waiting := start, 0
	events := make([]syscall.EpollEvent, 128)
	for time.Since(start) < d || waiting > 0 {
		n, err := syscall.EpollWait(l.epoll, events, 30_000)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		now := time.Now()
		for _, e := range events[:n] {
			if int(e.Fd) == timer {
				var expired [8]byte
				if _, err := syscall.Read(timer, expired[:]); err != nil {
					return err
				}
				for range binary.NativeEndian.Uint64(expired[:]) {
					if next = next.Add(interval); next.Sub(start) < d {
						due = append(due, now)
					}
				}
				continue
			}
			c := l.conns[e.Fd]
			whole, err := l.answer(c)
			if err != nil {
				return err
			}
			if whole {
				l.done++
				l.latencies = append(l.latencies, now.Sub(c.due))
				waiting--
				free = append(free, c)
			}
		}
		for len(due) > 0 && len(free) > 0 {
			c := free[len(free)-1]
			free = free[:len(free)-1]
			c.due, due = due[0], due[1:]
			if err := l.ask(c); err != nil {
				return err
			}
			waiting++
		}
	}
	return nil
}

// tick adds a timer to the loop's descriptors that expires once per interval. (timerfd_create(2): epoll itself counts
// milliseconds)
func (l *loop) tick(interval time.Duration) (int, error) {
	const monotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return 0, errno
	}
	every := syscall.NsecToTimespec(interval.Nanoseconds())
	spec := [2]syscall.Timespec{every, every}
	if _, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); errno != 0 {
		return 0, errno
	}
	timer := int(fd)
	return timer, syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, timer, //nolint:gosec // a small number
		&syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(timer)})
}
