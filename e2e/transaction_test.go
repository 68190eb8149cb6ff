package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay passes requests on as they are, and keeps the last transaction token.
type relay struct {
	mu   sync.Mutex
	last string
}

func (r *relay) token() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// to returns a server that passes requests on to a port of this machine.
func (r *relay) to(t *testing.T, port int) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: fmt.Sprintf("localhost:%d", port)})
		p.Out.Host = p.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.last = q.Header.Get("Txn-Token")
		r.mu.Unlock()
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// TestTransactionTokensGuide follows docs/experimental/transaction-tokens.md: a request passes the edge, the service in
// Go verifies its token and gets a narrower one, which the service in Node.js verifies.
func TestTransactionTokensGuide(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 3)
	var edge, inner relay
	g := follow(t, "../docs/experimental/transaction-tokens.md", nil, map[string]string{"localhost:9000": edge.to(t, ports[0])})
	origin := g.local.Replace("https://api.example.com")
	host := strings.TrimPrefix(origin, "http://")

	dir := t.TempDir()
	g.save(dir)
	modules(t, dir)
	orders := g.goBuild(filepath.Join(dir, "orders.go"))
	start := func(port int, domain string, command ...string) string {
		at := fmt.Sprintf("http://localhost:%d", port)
		g.launch(at, dir, []string{
			"ISSUER=" + g.Issuer, "DOMAIN=" + domain, fmt.Sprintf("PORT=%d", port), "ORDERS_SECRET=" + g.value("ORDERS_SECRET"),
			"STOCK=http://" + inner.to(t, ports[1]),
		}, command[0], command[1:]...)
		return at
	}
	stock := start(ports[1], "shop.internal", "node", "stock.mjs")
	service := start(ports[0], "shop.internal", orders)
	bank := start(ports[2], "bank.internal", "node", "stock.mjs")

	issue := func(lifetime string) string {
		t.Helper()
		text := strings.TrimSpace(g.caddy("caddy gatehouse token issue --client web --scope orders.read,stock.read --lifetime " + lifetime))
		g.secret("access token", text)
		return text
	}
	access := issue("10m")
	pass := func(access string) (int, string) {
		return ask(t, origin, "", "GET", "/orders/17?x=1", map[string]string{"Authorization": "Bearer " + access, "Txn_Token": "forged"})
	}
	if status, answer := pass(access); status != http.StatusOK || answer != "order for web: 3 in stock\n" {
		t.Fatalf("from the edge to the stock: %d %q", status, answer)
	}
	wide, narrow := edge.token(), inner.token()
	if wide == "" || narrow == "" || wide == narrow {
		t.Fatalf("the services got %q and %q", wide, narrow)
	}
	for _, tt := range []struct {
		name, at, host, method, target, token string
		want                                  int
	}{
		{"once more as it came", service, host, "GET", "/orders/17", wide, 200},
		{"another path", service, host, "GET", "/orders/18", wide, 401},
		{"another method", service, host, "DELETE", "/orders/17", wide, 401},
		{"another host", service, "localhost:1", "GET", "/orders/17", wide, 401},
		{"none", service, host, "GET", "/orders/17", "", 401},
		{"an access token", service, host, "GET", "/orders/17", access, 401},
		{"the narrower one for the wider purpose", service, host, "GET", "/orders/17", narrow, 401},
		{"a damaged signature", service, host, "GET", "/orders/17", wide[:len(wide)-8] + "AAAAAAAA", 401},
		{"the narrower one at the stock", stock, "", "GET", "/stock/17", narrow, 200},
		{"that of the edge at the stock", stock, "", "GET", "/stock/17", wide, 401},
		{"none at the stock", stock, "", "GET", "/stock/17", "", 401},
		{"in another trust domain", bank, "", "GET", "/stock/17", narrow, 401},
	} {
		header := map[string]string{}
		if tt.token != "" {
			header["Txn-Token"] = tt.token
		}
		if status, answer := ask(t, tt.at, tt.host, tt.method, tt.target, header); status != tt.want {
			t.Errorf("%s: status = %d, %q, want %d", tt.name, status, answer, tt.want)
		}
	}
	// A transaction ends with the access token that began it.
	if status, answer := pass(issue("4s")); status != http.StatusOK {
		t.Fatalf("with a token of four seconds: %d %q", status, answer)
	}
	short, shortNarrow := edge.token(), inner.token()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		one, _ := ask(t, service, host, "GET", "/orders/17", map[string]string{"Txn-Token": short})
		two, _ := ask(t, stock, "", "GET", "/stock/17", map[string]string{"Txn-Token": shortNarrow})
		if one == http.StatusUnauthorized && two == http.StatusUnauthorized {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after the end of the access token: %d and %d, want 401", one, two)
		case <-tick.C:
		}
	}
}
