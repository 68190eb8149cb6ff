// Package caddytest has the helpers that tests of caddymodule and the packages below it share.
package caddytest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
	"time"
)

// FreePort returns a port that is free, and that no other test gets before this one ends: neither one of this package
// nor one of a package whose tests run next to it. It lies below the ports that the system gives to connections, which
// could otherwise take it before the test does.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000) //nolint:gosec // a port of a test is no secret
		ours, err := net.Listen("unix", fmt.Sprintf("@gatehouse-test-port-%d", port))
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = l.Close()
			t.Cleanup(func() { _ = ours.Close() })
			return strconv.Itoa(port)
		}
		_ = ours.Close()
	}
	t.Fatal("no port is free")
	return ""
}

// Dial opens a connection that is closed when the test ends, and that fails after two minutes: on a machine with other
// work a download takes long.
func Dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}
