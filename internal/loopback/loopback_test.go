package loopback_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/loopback"
)

func TestIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, host string
		want       bool
	}{
		{"the name", "localhost", true},
		{"the name in capitals", "LOCALHOST", true},
		{"a name below it", "wiki.localhost", true},
		{"a name below it in capitals", "Wiki.LocalHost", true},
		{"the address", "127.0.0.1", true},
		{"another address of the network", "127.255.255.254", true},
		{"IPv6", "::1", true},
		{"IPv6 in full", "0:0:0:0:0:0:0:1", true},
		{"IPv6 with a zone", "::1%lo", true},
		{"IPv4 inside IPv6", "::ffff:127.0.0.1", true},
		{"IPv4 inside IPv6, in hexadecimal", "::ffff:7f00:1", true},

		{"nothing", "", false},
		{"a dot at the end", "localhost.", false},
		{"a dot alone before it", ".localhost.", false},
		{"a dot at the end of the address", "127.0.0.1.", false},
		{"an address of two parts", "127.1", false},
		{"an address in hexadecimal", "0x7f.1", false},
		{"an address in one number", "2130706433", false},
		{"an address in octal", "0177.0.0.1", false},
		{"an address with a zero before it", "127.0.0.01", false},
		{"every address of this machine", "0.0.0.0", false},
		{"every address of this machine, IPv6", "::", false},
		{"the older form of IPv4 inside IPv6", "::127.0.0.1", false},
		{"the neighbouring network", "128.0.0.1", false},
		{"a private network", "10.0.0.1", false},
		{"link-local", "169.254.169.254", false},
		{"with brackets", "[::1]", false},
		{"with a port", "localhost:80", false},
		{"at the beginning of another name", "localhost.evil.example", false},
		{"at the beginning of another name, as an address", "127.0.0.1.evil.example", false},
		{"at the end of another name", "evillocalhost", false},
		{"with a NUL", "localhost\x00.evil.example", false},
		{"with a space", " localhost", false},
		{"with a letter that looks like one of it", "lоcalhost", false}, // a Cyrillic о
		{"with a letter that folds to one of it", "localho\u017ft", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := loopback.Is(tt.host); got != tt.want {
				t.Errorf("Is(%q) = %t, want %t", tt.host, got, tt.want)
			}
		})
	}
}
