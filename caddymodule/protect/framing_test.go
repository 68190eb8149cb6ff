package protect

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
)

func TestProtectAttacksOnFraming(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "attack 201: two lengths for one request", func(t *testing.T) {
		for _, lines := range [][]string{
			{"Content-Length: 4", "Transfer-Encoding: chunked", "", "0", "", "GET /smuggled HTTP/1.1", "Host: open.test"},
			{"Content-Length: 4", "Content-Length: 5", "", "abcde"},
			{"Content-Length: +5", "", "abcde"},
			{"Content-Length : 5", "", "abcde"},
			{"Transfer-Encoding: xchunked", "", "0"},
			{"Transfer-Encoding: chunked, identity", "", "0"},
			{"Transfer-Encoding : chunked", "", "0"},
			{"Content-Length: 0x5", "", "abcde"},
		} {
			a := g.raw(t, slices.Concat([]string{"POST / HTTP/1.1", "Host: open.test", "Authorization: Bearer " + g.user}, lines)...)
			for _, s := range g.take() {
				if a.StatusCode >= 400 || strings.Contains(s.target, "smuggled") || s.values("Content-Length") != nil &&
					s.values("Transfer-Encoding") != nil {
					t.Errorf("%q: status %d, the upstream saw %q", lines, a.StatusCode, s.raw)
				}
			}
		}
	})
	g.attack(t, "attack 214: a request that never ends reaches nobody", func(t *testing.T) {
		var conns []io.Closer
		for i := range 50 {
			conn := caddytest.Dial(t, g.addr)
			conns = append(conns, conn)
			fmt.Fprintf(conn, "GET /slow HTTP/1.1\r\nHost: open.test\r\nAuthorization: Bearer %s\r\nX-%d:", g.user, i)
		}
		g.passed(t, g.get(t, "open.test", "/"))
		for _, c := range conns {
			c.Close()
		}
		if s := g.take(); len(s) > 0 {
			t.Errorf("the upstream saw %q", s[0].raw)
		}
	})
	g.attack(t, "attack 216: a huge body is refused before it is read", func(t *testing.T) {
		for _, length := range []string{"Content-Length: 1073741824", "Transfer-Encoding: chunked"} {
			a := g.raw(t, "POST / HTTP/1.1", "Host: open.test", length, "Content-Encoding: gzip")
			g.refused(t, a, http.StatusUnauthorized)
			a = g.raw(t, "POST / HTTP/1.1", "Host: open.test", length, "Expect: 100-continue")
			g.refused(t, a, http.StatusUnauthorized)
		}
	})
}
