package listeners

import (
	"net"
	"net/netip"
	"os"
	"testing"
)

// A socket of this process is not foreign, whatever its address.
func TestOwnSocketIsNotForeign(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := netip.MustParseAddrPort(l.Addr().String())
	if got := Foreign([]netip.AddrPort{at, netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())}); len(got) != 0 {
		t.Errorf("Foreign = %v", got)
	}
	inode := ""
	for i := range socketsOf("/proc/self") {
		if owner(i) == os.Getpid() {
			inode = i
		}
	}
	if inode == "" {
		t.Error("no socket of this process was found by its owner")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	const rest = " 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1"
	for line, want := range map[string]string{
		"0: 0100007F:1F90" + rest:                         "127.0.0.1:8080",
		"1: 00000000:01BB" + rest:                         "0.0.0.0:443",
		"2: 00000000000000000000000001000000:0050" + rest: "[::1]:80",
		"3: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000 0 0 4711 1": "", // a connection
		"sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid":     "",
	} {
		at, inode, ok := parse(line)
		if !ok && want != "" || ok && (at.String() != want || inode != "4711") {
			t.Errorf("parse(%q) = %v, %q, %t, want %q", line, at, inode, ok, want)
		}
	}
}

func TestOverlap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"0.0.0.0:80", "127.0.0.1:80", true},
		{"[::]:80", "127.0.0.1:80", true},
		{"[::]:80", "[::]:80", true},
		{"0.0.0.0:80", "[::1]:80", false},
		{"127.0.0.1:80", "127.0.0.2:80", false},
		{"127.0.0.1:80", "127.0.0.1:81", false},
		{"[::ffff:127.0.0.1]:80", "127.0.0.1:80", true},
	} {
		a, b := netip.MustParseAddrPort(tt.a), netip.MustParseAddrPort(tt.b)
		if overlap(a, b) != tt.want || overlap(b, a) != tt.want {
			t.Errorf("overlap(%s, %s) = %t, want %t", a, b, !tt.want, tt.want)
		}
	}
}
