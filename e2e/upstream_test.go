package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"testing"
)

// seen is the request that an upstream received, in its own words.
type seen struct {
	Method, URI, User, Name, Email, Groups, Cookie, Authorization string
}

// echo starts an upstream that answers with the request that it received.
func echo(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(echoes))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// echoes answers with the request that it received: a page for browsers, JSON for others.
func echoes(w http.ResponseWriter, r *http.Request) {
	s := seen{
		r.Method, r.RequestURI, r.Header.Get("Remote-User"), r.Header.Get("Remote-Name"), r.Header.Get("Remote-Email"),
		r.Header.Get("Remote-Groups"), r.Header.Get("Cookie"), r.Header.Get("Authorization"),
	}
	raw, err := json.Marshal(s)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Upstream</title><main><h1>Upstream</h1><pre id="seen">%s</pre></main>`,
			html.EscapeString(string(raw)))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(raw)
}
