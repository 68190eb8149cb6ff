package api_test

import (
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

// TestUsageAPI: a backend reads what a bill needs, page by page or as a file.
func TestUsageAPI(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	c := usage.New(h.store, h.clock.Now, zap.NewNop())
	for range 3 {
		c.Site("api.example.com").Passed("=shop", h.clock.Now())
	}
	c.Site("api.example.com").Limited("blog", h.clock.Now())
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	get := func(query string) (int, string) {
		w := h.send(http.MethodGet, "/api/v1/usage"+query, "")
		return w.status(), strings.TrimSpace(w.ResponseRecorder.Body.String())
	}
	const shop = `{"day":"2026-11-21","client_id":"=shop","site":"api.example.com","requests":3}`
	const blog = `{"day":"2026-11-21","client_id":"blog","site":"api.example.com","requests":0,"limited":1}`
	for query, want := range map[string]string{
		"": `{"usage":[` + blog + `,` + shop + `]}`, "?client=%3Dshop": `{"usage":[` + shop + `]}`,
		"?from=2026-11-22&to=2026-11-30": `{"usage":[]}`, "?site=wiki.example.com": `{"usage":[]}`,
		"?format=csv": "day,client_id,site,requests,limited\r\n2026-11-21,blog,api.example.com,0,1\r\n2026-11-21,'=shop,api.example.com,3,0",
	} {
		if status, body := get(query); status != http.StatusOK || body != want {
			t.Errorf("usage%s = %d %s, want %s", query, status, body, want)
		}
	}
	first := answer(t, h.send(http.MethodGet, "/api/v1/usage?limit=1", "").ResponseRecorder)
	if _, body := get("?limit=1&after=" + first["next"].(string)); !strings.HasPrefix(body, `{"usage":[`+shop) {
		t.Errorf("the second page = %s", body)
	}
	for query, want := range map[string]string{
		"?from=soon": "from must be a day", "?from=2026-11-22&to=2026-11-21": "the first day", "?format=xml": "format", "?limit=0": "limit",
		"?after=x": "after must be", "?client=a&client=b": "client is there twice", "?a=%zz": "malformed", "?format=csv&from=1990-01-01": "750",
	} {
		if status, body := get(query); status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("usage%s = %d %s, want 400 with %q", query, status, body, want)
		}
	}
	h.set(func(u *settings.Units) { u.Features.StatisticsAPIEnabled = false })
	if status, _ := get(""); status != http.StatusServiceUnavailable {
		t.Errorf("switched off: %d", status)
	}
}

// TestUsageOfPartitions: an API client of some partitions learns nothing of clients, which are in none.
func TestUsageOfPartitions(t *testing.T) {
	t.Parallel()
	h := newPeople(t, westOnly)
	for client, want := range map[string]int{"west": http.StatusForbidden, "other": http.StatusForbidden, "ops": http.StatusOK} {
		if w := h.send(http.MethodGet, "/api/v1/usage", "", as(client)...); w.status() != want {
			t.Errorf("%s: %d %s, want %d", client, w.status(), w.ResponseRecorder.Body, want)
		}
	}
}
