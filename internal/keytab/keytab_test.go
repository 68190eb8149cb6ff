package keytab_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/keytab"
)

// entry is the entry of a key with an 8-bit version alone, and more behind it.
func entry(realm, key string, parts []string, more ...byte) []byte {
	counted := func(out []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint16(out, uint16(len(s))), s...) //nolint:gosec // short
	}
	out := counted(binary.BigEndian.AppendUint16(nil, uint16(len(parts))), realm) //nolint:gosec // short
	for _, p := range parts {
		out = counted(out, p)
	}
	out = append(out, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 18)
	return append(counted(out, key), more...)
}

// file is a keytab with these entries. nil: a key of 8 bytes that was removed.
func file(entries ...[]byte) []byte {
	out := []byte{5, 2}
	for _, e := range entries {
		if e == nil {
			out = append(out, 0xff, 0xff, 0xff, 0xf8, 1, 2, 3, 4, 5, 6, 7, 8)
			continue
		}
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(e))), e...) //nolint:gosec // short
	}
	return out
}

func TestPrincipals(t *testing.T) {
	t.Parallel()
	web, host := []string{"HTTP", "auth.example.com"}, []string{"host", "pc7"}
	good := entry("EXAMPLE.COM", "key", web)
	for _, tt := range []struct {
		name string
		raw  []byte
		want string // "": no keytab
	}{
		{"one", file(good), "HTTP/auth.example.com@EXAMPLE.COM"},
		{
			"a key twice, with its version in four bytes", file(good, entry("EXAMPLE.COM", "new", web, 0, 0, 1, 0)),
			"HTTP/auth.example.com@EXAMPLE.COM",
		},
		{
			"two, and one that was removed", file(nil, good, nil, entry("B.EXAMPLE", "key", host)),
			"HTTP/auth.example.com@EXAMPLE.COM host/pc7@B.EXAMPLE",
		},
		{"longer than its content", append(file(good), make([]byte, 11)...), "HTTP/auth.example.com@EXAMPLE.COM"},
		{"nothing", nil, ""},
		{"no keys", file(), ""},
		{"a removed key alone", file(nil), ""},
		{"another version", append([]byte{5, 1}, file(good)[2:]...), ""},
		{"PEM", []byte("-----BEGIN PRIVATE KEY-----\n"), ""},
		{"cut", file(good)[:len(file(good))-1], ""},
		{"more behind its end", append(file(good), 0, 0, 0, 0, 1), ""},
		{"a part of a size behind it", append(file(good), 0, 0), ""},
		{"a removed key of the greatest size", append(file(good), 0x80, 0, 0, 0), ""},
		{"a key of the greatest size", append(file(good), 0x7f, 0xff, 0xff, 0xff), ""},
		{"no name", file(entry("EXAMPLE.COM", "key", nil)), ""},
		{"no realm", file(entry("", "key", web)), ""},
		{"no key", file(entry("EXAMPLE.COM", "", web)), ""},
		{"a line end in the name", file(entry("EXAMPLE.COM", "key", []string{"HTTP", "a\nb"})), ""},
		{"a name that is no text", file(entry("EXAMPLE.COM", "key", []string{"HTTP", "\xff"})), ""},
	} {
		got, err := keytab.Principals(tt.raw)
		if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

// TestMutations: whatever the bytes are, they end.
func TestMutations(t *testing.T) {
	t.Parallel()
	good := file(entry("EXAMPLE.COM", "key", []string{"HTTP", "auth.example.com"}), nil)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // mutations
	for range 20_000 {
		raw := slices.Clone(good)[:1+random.IntN(len(good))]
		for range 1 + random.IntN(3) {
			raw[random.IntN(len(raw))] = byte(random.IntN(256))
		}
		if list, err := keytab.Principals(raw); err == nil && len(list) == 0 || err != nil && list != nil {
			t.Fatalf("%x: %q, %v", raw, list, err)
		} else if err != nil && !errors.Is(err, keytab.ErrFormat) && err.Error() != "it has no keys" {
			t.Fatalf("%x: %v", raw, err)
		}
	}
}
