package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"1.1.1.1:443": true, "8.8.8.8:80": true, "[2606:4700::1111]:443": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "10.0.0.1:80": false, "172.16.0.1:80": false, "192.168.1.1:80": false, "169.254.169.254:80": false,
		"100.64.0.1:80": false, "0.0.0.0:80": false, "224.0.0.1:80": false, "255.255.255.255:80": false, "198.18.0.1:80": false, "240.0.0.1:80": false,
		"[::1]:80": false, "[::]:80": false, "[fe80::1]:80": false, "[fe80::1%eth0]:80": false, "[fd00::1]:80": false, "[ff02::1]:80": false,
		"[::ffff:127.0.0.1]:80": false, "[::ffff:10.0.0.1]:80": false, "[64:ff9b::7f00:1]:80": false, "[2002:7f00:1::]:80": false, "[::7f00:1]:80": false,
		"localhost:80": false, "": false, "1.1.1.1": false,
	} {
		if err := check(address); (err == nil) != public {
			t.Errorf("check(%q) = %v, want public %t", address, err, public)
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
		t.Errorf("an address that nobody vouches for: %v, want ErrAddress", err)
	}
}
