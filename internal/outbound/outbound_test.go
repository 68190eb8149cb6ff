package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"1.1.1.1:443": true, "8.8.8.8:80": true, "[2606:4700::1111]:443": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "10.0.0.1:80": false, "172.16.0.1:80": false, "192.168.1.1:80": false,
		"169.254.169.254:80": false,
		"100.64.0.1:80":      false, "0.0.0.0:80": false, "224.0.0.1:80": false, "255.255.255.255:80": false,
		"198.18.0.1:80": false, "240.0.0.1:80": false,
		"[::1]:80": false, "[::]:80": false, "[fe80::1]:80": false, "[fe80::1%eth0]:80": false, "[fd00::1]:80": false, "[ff02::1]:80": false,
		"[::ffff:127.0.0.1]:80": false, "[::ffff:10.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false,
		"[2002:7f00:1::]:80": false, "[::7f00:1]:80": false,
		"localhost:80": false, "": false, "1.1.1.1": false,
	} {
		if err := check(address, nil); (err == nil) != public {
			t.Errorf("check(%q) = %v, want public %t", address, err, public)
		}
	}
}

func TestAllowedNetworks(t *testing.T) {
	t.Parallel()
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("127.0.0.1/32")}
	for address, want := range map[string]bool{
		"10.1.2.3:443": true, "[::ffff:10.1.2.3]:443": true, "10.2.0.1:443": false, "[fd00:1::5]:80": true,
		"[fd00:2::5]:80": false, "127.0.0.1:80": true,
		"127.0.0.2:80": false, "169.254.169.254:80": false, "[::1]:80": false, "1.1.1.1:443": true, "10.1.2.3": false,
	} {
		if err := check(address, allow); (err == nil) != want {
			t.Errorf("check(%q) = %v, want allowed %t", address, err, want)
		}
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/large":
			w.Write([]byte(strings.Repeat("x", MaxBody+1)))
		case "/packed":
			w.Write([]byte(r.Header.Get("Accept-Encoding")))
		default:
			w.Write([]byte("here"))
		}
	}))
	t.Cleanup(web.Close)
	get := func(c *http.Client, path string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		body, err := Body(res)
		return res.StatusCode, string(body), err
	}
	trusted := New(true)
	if status, body, err := get(trusted, "/"); status != http.StatusOK || body != "here" || err != nil {
		t.Errorf("trusted: %d %q %v", status, body, err)
	}
	if status, _, err := get(trusted, "/away"); status != http.StatusFound || err != nil {
		t.Errorf("redirect: %d %v, want it not followed", status, err)
	}
	if _, body, err := get(trusted, "/large"); err == nil {
		t.Errorf("%d bytes were read, want an error", len(body))
	}
	if _, body, err := get(trusted, "/packed"); body != "" || err != nil {
		t.Errorf("compression %q was asked for: %v", body, err)
	}
	if _, _, err := get(New(false), "/"); !errors.Is(err, ErrAddress) {
		t.Errorf("an address that the operator has not written: %v, want ErrAddress", err)
	}
	opened := New(false, netip.MustParsePrefix("127.0.0.0/8"))
	if status, _, err := get(opened, "/"); status != http.StatusOK || err != nil {
		t.Errorf("an address that the operator has opened: %d %v", status, err)
	}
}

// TestUnvouchedAddresses tries every way to reach this machine by an address that the operator has not written.
func TestUnvouchedAddresses(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("attack 264: addresses of this machine and its network in every spelling", func(t *testing.T) {
		t.Parallel()
		client := New(false, netip.MustParsePrefix("10.9.0.0/16"))
		for _, host := range []string{
			"127.0.0.1", "127.1", "127.0.0.1.", "2130706433", "0x7f000001", "0177.0.0.1", "0", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]",
			"[::ffff:7f00:1]", "[::7f00:1]",
			"[64:ff9b::7f00:1]", "localhost", "LOCALHOST", "localhost.", "169.254.169.254", "[fe80::1%25lo]", "10.0.0.1", "192.168.0.1",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(strings.Trim(host, "[]"), port)+"/", nil)
			if err != nil { // not even an address
				cancel()
				continue
			}
			res, err := client.Do(req)
			cancel()
			if err == nil {
				t.Errorf("GET %s = %d, want no connection", host, res.StatusCode)
				res.Body.Close()
			}
		}
		if n := reached.Load(); n != 0 {
			t.Errorf("%d requests arrived, want none", n)
		}
	})
	t.Run("attack 264: a redirect into the network, and a name that changes its address", func(t *testing.T) {
		t.Parallel()
		// The address is judged at each connection, after the name was resolved: nothing that was looked at before
		// counts.
		transport, ok := New(false).Transport.(*http.Transport)
		if !ok {
			t.Fatal("the client has another transport")
		}
		for range 2 {
			if conn, err := transport.DialContext(t.Context(), "tcp", net.JoinHostPort("localhost", port)); !errors.Is(err, ErrAddress) {
				conn.Close()
				t.Errorf("dial by name = %v, want ErrAddress", err)
			}
		}
		if err := New(false).CheckRedirect(nil, nil); !errors.Is(err, http.ErrUseLastResponse) {
			t.Errorf("CheckRedirect = %v, want that none is followed", err)
		}
		if transport.Proxy != nil {
			t.Error("the client takes a proxy from the environment")
		}
	})
}
