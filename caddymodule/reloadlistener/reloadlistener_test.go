package reloadlistener_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	"github.com/gatehouse-id/gatehouse/caddymodule/reloadlistener"
)

// generation answers with the number of its configuration and what it has read, and counts the requests that it served.
type generation struct {
	Number int `json:"number"`
}

var entered, served atomic.Int64

func init() { caddy.RegisterModule(generation{}) }

func (generation) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.generation", New: func() caddy.Module { return new(generation) }}
}

func (g generation) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	entered.Add(1)
	body, err := io.ReadAll(r.Body)
	served.Add(1)
	w.Header().Set("From", r.RemoteAddr)
	_, _ = fmt.Fprintf(w, "%d %s %s", g.Number, r.Header.Get("N"), body)
	return err
}

// site is an address that is served by one configuration after the other.
type site struct {
	t        *testing.T
	addr     string
	number   int
	secure   bool
	wrappers string // of the listener
}

func newSite(t *testing.T) *site {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &site{t: t, addr: ln.Addr().String(), wrappers: `{"wrapper": "gatehouse"}, {"wrapper": "tls"}`}
}

// load loads the next configuration.
func (s *site) load() {
	s.t.Helper()
	s.number++
	policies := ""
	if s.secure {
		policies = `"tls_connection_policies": [{}],`
	}
	cfg := fmt.Sprintf(`{"admin": {"disabled": true, "config": {"persist": false}}, "logging": {"logs": {"default": {"level": "ERROR"}}}, "apps": {
		"tls": {"certificates": {"automate": ["localhost"]}, "automation": {"policies": [{"issuers": [{"module": "internal"}]}]}},
		"pki": {"certificate_authorities": {"local": {"install_trust": false}}},
		"http": {"grace_period": "5s", "servers": {"s": {"listen": [%q], "automatic_https": {"disable": true}, "protocols": ["h1", "h2"], %s
			"listener_wrappers": [%s],
			"routes": [{"handle": [{"handler": "generation", "number": %d}]}]}}}}}`, s.addr, policies, s.wrappers, s.number)
	if err := caddy.Load([]byte(cfg), true); err != nil {
		s.t.Fatal(err)
	}
}

// dial opens a connection that a test writes to by hand.
func (s *site) dial() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return c, bufio.NewReader(c)
}

func request(n int, body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nN: %d\r\nContent-Length: %d\r\n\r\n%s", n, len(body), body)
}

// answered reads an answer.
func (s *site) answered(r *bufio.Reader, want string) {
	s.t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		s.t.Fatalf("no answer, want %q: %v", want, err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
		s.t.Errorf("answer %d %q, %v, want %q", resp.StatusCode, got, err, want)
	}
}

func (s *site) write(c net.Conn, text string) {
	s.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
}

// TestReload: what a client with one connection sees of a reload.
func TestReload(t *testing.T) {
	t.Run("a request on a kept connection goes to the new configuration", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		for n := range 5 {
			s.write(c, request(n, "x"))
			s.answered(r, fmt.Sprintf("%d %d x", n+1, n))
			s.load()
		}
	})
	t.Run("a connection without a request goes to the new configuration", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		s.load()
		s.load()
		s.write(c, request(1, "x"))
		s.answered(r, "3 1 x")
	})
	t.Run("a request that has begun stays where it began", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		s.write(c, request(1, "x"))
		s.answered(r, "1 1 x")
		whole := request(2, "xyz")
		before := entered.Load()
		s.write(c, whole[:len(whole)-2])
		for deadline := time.Now().Add(2 * time.Minute); entered.Load() == before && time.Now().Before(deadline); {
			runtime.Gosched() // until the handler waits for its body
		}
		s.load()
		s.write(c, whole[len(whole)-2:])
		s.answered(r, "1 2 xyz")
	})
	t.Run("attack: requests sent ahead are not taken apart", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		first, second := request(1, "x"), request(2, "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n")
		s.write(c, first+second[:20]) // the server holds the beginning of the second
		s.answered(r, "1 1 x")
		before := served.Load()
		s.load()
		_, err := io.WriteString(c, second[20:])
		if resp, readErr := http.ReadResponse(r, nil); err == nil && readErr == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if !strings.HasPrefix(string(body), "1 2 GET /smuggled") {
				t.Errorf("answer %d %q, want the second request as it was sent, or none", resp.StatusCode, body)
			}
		}
		if n := served.Load() - before; n > 1 {
			t.Errorf("%d requests were served, want the second one at most", n)
		}
	})
	t.Run("the end of the last configuration closes the connection", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		s.write(c, request(1, "x"))
		s.answered(r, "1 1 x")
		if err := caddy.Stop(); err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("read = %v, want the end", err)
		}
		for end := time.Now().Add(10 * time.Second); reloadlistener.InUse() && time.Now().Before(end); {
			runtime.Gosched() // the connection ends before its socket is counted as closed
		}
		if reloadlistener.InUse() {
			t.Error("the socket is open")
		}
		if _, err := net.Dial("tcp", s.addr); err == nil {
			t.Error("the address accepts connections")
		}
	})
	t.Run("a configuration that cannot start changes nothing", func(t *testing.T) {
		s := newSite(t)
		s.load()
		c, r := s.dial()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
		bad := fmt.Sprintf(`{"admin": {"disabled": true, "config": {"persist": false}}, "apps": {"http": {"servers": {
			"a": {"listen": [%q], "listener_wrappers": [{"wrapper": "gatehouse"}, {"wrapper": "tls"}]},
			"b": {"listen": ["tcp/256.0.0.1:1"]}}}}}`, s.addr)
		if err := caddy.Load([]byte(bad), true); err == nil {
			t.Fatal("it started")
		}
		s.write(c, request(1, "x"))
		s.answered(r, "1 1 x")
		c, r = s.dial()
		s.write(c, request(2, "x"))
		s.answered(r, "1 2 x")
	})
}

// The headers of a load balancer: who has connected to it.
const (
	fromAda = "PROXY TCP4 192.0.2.7 192.0.2.1 5000 443\r\n"
	fromEve = "PROXY TCP4 192.0.2.66 192.0.2.1 5000 443\r\n"
)

// The listener wrapper of the PROXY protocol, which believes the load balancer or no one.
const (
	believes  = `{"wrapper": "proxy_protocol", "allow": ["127.0.0.1/32"]}`
	disbelief = `{"wrapper": "proxy_protocol", "deny": ["127.0.0.1/32"]}`
)

// ask sends a text on a new connection. It returns the status of the answer, 0 for none, and the address of the client
// as the server sees it.
func (s *site) ask(text string) (status int, from string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		return 0, ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	_, _ = io.WriteString(c, text)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("From")
}

// soon asks until an answer is as wanted. With another wrapper in front, the sockets of two configurations are open for
// a moment during a reload, and connections that wait in the old one are reset.
func (s *site) soon(text string, wanted func(status int, from string) bool) {
	s.t.Helper()
	status, from := s.ask(text)
	for end := time.Now().Add(2 * time.Minute); !wanted(status, from); status, from = s.ask(text) {
		if time.Now().After(end) {
			s.t.Fatalf("the answer to %q has the status %d, from the address %q", text, status, from)
		}
	}
}

// TestOtherWrappers: those in front of gatehouse and those behind it do their work, and a reload changes it.
func TestOtherWrappers(t *testing.T) {
	const ours = `{"wrapper": "gatehouse"}`
	isAda := func(status int, from string) bool { return status == http.StatusOK && from == "192.0.2.7:5000" }
	for name, order := range map[string]string{"in front": "%s, " + ours, "behind": ours + ", %s"} {
		with := func(other string) string { return fmt.Sprintf(order, other) + `, {"wrapper": "tls"}` }
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.load()
			s.wrappers = with(believes)
			s.load()
			s.soon(fromAda+request(1, "x"), isAda)
			s.load()
			s.soon(fromAda+request(2, "x"), isAda)
		})
		t.Run("attack 6399: an address that is no longer believed, "+name, func(t *testing.T) {
			s := newSite(t)
			s.wrappers = with(believes)
			s.load()
			s.wrappers = with(disbelief)
			s.load()
			s.soon(fromEve+request(1, "x"), func(status int, _ string) bool { return status != http.StatusOK })
			if status, from := s.ask(fromEve + request(2, "x")); status == http.StatusOK {
				t.Errorf("the answer has the status 200, the client the address %q", from)
			}
			s.soon(request(3, "x"), func(status int, _ string) bool { return status == http.StatusOK })
		})
		t.Run("attack 6399: an address after the wrapper is gone, "+name, func(t *testing.T) {
			s := newSite(t)
			s.wrappers = with(believes)
			s.load()
			s.wrappers = ours + `, {"wrapper": "tls"}`
			s.load()
			s.soon(fromEve+request(1, "x"), func(status int, _ string) bool { return status == http.StatusBadRequest })
			c, r := s.dial()
			s.write(c, request(1, "x"))
			s.answered(r, "2 1 x")
			s.load()
			s.write(c, request(2, "x"))
			s.answered(r, "3 2 x")
		})
		t.Run("attack 6399: an address in the second request of a connection, "+name, func(t *testing.T) {
			s := newSite(t)
			s.wrappers = with(believes)
			s.load()
			c, r := s.dial()
			s.write(c, fromAda+request(1, "x"))
			s.answered(r, "1 1 x")
			before := served.Load()
			s.load()
			_, _ = io.WriteString(c, fromEve+request(2, "x")) // it may be closed already
			if resp, err := http.ReadResponse(r, nil); err == nil {
				resp.Body.Close()
			}
			if served.Load() != before {
				t.Error("the server has taken the text of a client for that of the load balancer")
			}
		})
	}
}

// foreign is a listener of a module for a network.
type foreign struct{ net.Listener }

// TestNetworksOfModules: what a module listens at is no socket that another one could stand for, although its address
// looks like one.
func TestNetworksOfModules(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := &foreign{ln}
	if got := new(reloadlistener.Wrapper).WrapListener(at); got != at {
		t.Errorf("WrapListener = %T, want the listener of the module", got)
	}
}

// TestReloadsLoseNoRequest: clients that send nothing twice, on kept and on new connections, during many reloads.
func TestReloadsLoseNoRequest(t *testing.T) {
	s := newSite(t)
	s.load()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var sent, failed atomic.Int64
	before := served.Load()
	for w := range 16 {
		// A new connection for each request, or the same one.
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: w%2 == 0, MaxIdleConnsPerHost: 1}, Timeout: 2 * time.Minute}
		wg.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				resp, err := client.Post("http://"+s.addr+"/", "text/plain", io.MultiReader(strings.NewReader("once"))) // no GetBody: sent once
				if err != nil {
					failed.Add(1)
					t.Error(err)
					continue
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	for range 40 {
		for enough := sent.Load() + 200; sent.Load() < enough; {
			runtime.Gosched()
		}
		s.load()
	}
	stop()
	wg.Wait()
	if n := served.Load() - before; n != sent.Load()-failed.Load() || failed.Load() > 0 {
		t.Errorf("%d requests were sent, %d failed, %d were served", sent.Load(), failed.Load(), n)
	}
	t.Logf("%d requests in 40 reloads", sent.Load())
}

// TestReloadsWithTLS: no new connection is lost, handshakes under way included.
func TestReloadsWithTLS(t *testing.T) {
	s := newSite(t)
	s.secure = true
	s.load()
	post := func() error {
		client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{ //nolint:gosec // the certificate is made by the server
				InsecureSkipVerify: true,
				ServerName:         "localhost",
			},
		}}
		resp, err := client.Post("https://"+s.addr+"/", "text/plain", io.MultiReader(strings.NewReader("once")))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for deadline := time.Now().Add(2 * time.Minute); post() != nil && time.Now().Before(deadline); {
		runtime.Gosched() // until the certificate is made
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	var sent atomic.Int64
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				if err := post(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		for enough := sent.Load() + 20; sent.Load() < enough; {
			runtime.Gosched()
		}
		s.load()
	}
	stop()
	wg.Wait()
	t.Logf("%d requests in 20 reloads", sent.Load())
}

// TestCaddyfile: the wrapper has no options, and says so.
func TestCaddyfile(t *testing.T) {
	for input, want := range map[string]string{
		"gatehouse":                "",
		"gatehouse fast":           `unexpected argument "fast"`,
		"gatehouse {\n\tfast\n}\n": "it has no options",
	} {
		err := new(reloadlistener.Wrapper).UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("UnmarshalCaddyfile(%q) = %v, want %q", input, err, want)
		}
	}
}
