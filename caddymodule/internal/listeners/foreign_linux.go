package listeners

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const stateListen = "0A" // TCP_LISTEN in /proc/net/tcp

// Foreign returns the listening sockets of other processes that get connections to one of these addresses. It reads
// /proc, and is empty where that cannot be read.
func Foreign(addrs []netip.AddrPort) (out []Listener) {
	if len(addrs) == 0 {
		return nil
	}
	own := socketsOf("/proc/self")
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(table) //nolint:gosec // one of two
		if err != nil {
			continue
		}
		lines := bufio.NewScanner(f)
		for lines.Scan(); lines.Scan(); { // below the names of the columns
			at, inode, ok := parse(lines.Text())
			if !ok { // the kernel lists the sockets that listen first, and there can be a million connections
				break
			}
			if !own[inode] && slices.ContainsFunc(addrs, func(a netip.AddrPort) bool { return overlap(a, at) }) {
				out = append(out, Listener{Addr: at, PID: owner(inode)})
			}
		}
		_ = f.Close()
	}
	return out
}

// parse reads a line of /proc/net/tcp: address, state and inode of a socket that listens.
func parse(line string) (at netip.AddrPort, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != stateListen {
		return at, "", false
	}
	host, port, _ := strings.Cut(f[1], ":")
	raw, err := hex.DecodeString(host)
	n, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(raw)%4 != 0 {
		return at, "", false
	}
	for i := 0; i < len(raw); i += 4 { // words of 32 bits in the order of the machine, which is little endian where Caddy runs
		slices.Reverse(raw[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(n)), f[9], ok
}

// socketsOf returns the inodes of the sockets that a process has open.
func socketsOf(process string) map[string]bool {
	out := map[string]bool{}
	links, _ := filepath.Glob(process + "/fd/*")
	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(target, "socket:["); ok {
			out[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return out
}

// owner returns the process that has a socket open, as far as this user may see it. 0: unknown.
func owner(inode string) int {
	want := fmt.Sprintf("socket:[%s]", inode)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == want {
			pid, err := strconv.Atoi(strings.Split(link, "/")[2])
			if err == nil {
				return pid
			}
		}
	}
	return 0
}
