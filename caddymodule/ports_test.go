package caddymodule

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// ports are those that tests were given.
var ports sync.Map

// FreePort returns a port that nobody listens on and no other test has. It is below those that the system gives to connections, one of which would
// otherwise have it by the time it is used.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		port := 10_000 + rand.IntN(20_000)
		if _, taken := ports.LoadOrStore(port, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			_ = l.Close()
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no port is free")
	return ""
}
