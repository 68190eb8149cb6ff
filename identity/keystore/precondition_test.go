package keystore_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// tag returns the ETag of a path.
func (c *certificates) tag(path string) string {
	c.Helper()
	r := httptest.NewRequestWithContext(c.Context(), http.MethodGet, "https://auth.example.com"+path, nil)
	r.SetBasicAuth("ops", "secret")
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	tag := w.Header().Get("ETag")
	if w.Code != http.StatusOK || len(tag) < 10 {
		c.Fatalf("GET %s = %d, ETag %q", path, w.Code, tag)
	}
	return tag
}

// TestCertificatesHonourIfMatch: an administrator who has read an older state overwrites nothing.
func TestCertificatesHonourIfMatch(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	id := c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.other, year)))
	signID := c.add(pairOf("sign", "RSA", "", certOf(m.rsa, year)))
	one, all := certificatePath+"/"+id, certificatePath
	renewed := wrapped(pairOf("partner", "CERTIFICATE", "", certOf(m.other, year.AddDate(1, 0, 0))))
	another := wrapped(pairOf("another", "CERTIFICATE", "", certOf(m.ec, year)))
	batch := fields{"key_pairs": []fields{pairOf("batch", "CERTIFICATE", "", certOf(m.ec, year))}}
	staleOne, staleAll := c.tag(one), c.tag(all)
	check := func(what string, want int, method, path string, body any, headers ...string) {
		t.Helper()
		status, text := c.call(method, path, body, headers...)
		c.want(what, status, text, want)
	}
	check("GET of what the client has", http.StatusNotModified, http.MethodGet, one, nil, "If-None-Match", staleOne)
	check("GET of the list that the client has", http.StatusNotModified, http.MethodGet, all, nil, "If-None-Match", "W/"+staleAll)
	check("renew", http.StatusOK, http.MethodPost, one, renewed, "If-Match", staleOne)
	if c.tag(one) == staleOne || c.tag(all) == staleAll {
		t.Error("the tags are the same after a change")
	}
	before := strings.Join(c.list(), " ")
	for what, tt := range map[string]struct {
		method, path, stale string
		body                any
	}{
		"replace": {http.MethodPost, one, staleOne, wrapped(pairOf("partner", "CERTIFICATE", "", certOf(m.other, year)))},
		"remove":  {http.MethodDelete, one, staleOne, nil},
		"add":     {http.MethodPost, all, staleAll, another},
		"batch":   {http.MethodPost, all + "/batch", staleAll, batch},
	} {
		check(what+" with the tag of before", http.StatusPreconditionFailed, tt.method, tt.path, tt.body, "If-Match", tt.stale)
		check(what+" with a weak tag", http.StatusPreconditionFailed, tt.method, tt.path, tt.body, "If-Match", "W/"+c.tag(all))
		check(what+" unless it is there", http.StatusPreconditionFailed, tt.method, tt.path, tt.body, "If-None-Match", "*")
	}
	if after := strings.Join(c.list(), " "); after != before {
		t.Errorf("refused changes made %q of %q", after, before)
	}
	check("add with the tag of now", http.StatusOK, http.MethodPost, all, another, "If-Match", c.tag(all))
	check("batch with the tag of now", http.StatusOK, http.MethodPost, all+"/batch", batch, "If-Match", `"x", `+c.tag(all))
	check("remove whatever it is", http.StatusOK, http.MethodDelete, one, nil, "If-Match", "*")
	check("remove what is gone", http.StatusNotFound, http.MethodDelete, one, nil, "If-Match", "*")
	// A private key that comes is shown by nothing but the tag.
	sign := certificatePath + "/" + signID
	public := c.tag(sign)
	check("a private key", http.StatusOK, http.MethodPost, sign, wrapped(pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year))))
	if c.tag(sign) == public {
		t.Error("the tag is the same after a private key has come")
	}
}

// TestCertificatesAtOnce: of administrators who write with one tag at once, one wins.
func TestCertificatesAtOnce(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.other, c.now.AddDate(1, 0, 0))))
	tag := c.tag(certificatePath + "/" + id)
	statuses := make([]int, 20)
	var all sync.WaitGroup
	for i := range statuses {
		body, err := json.Marshal(wrapped(pairOf("partner", "CERTIFICATE", "", certOf(m.other, c.now.AddDate(2+i, 0, 0)))))
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			statuses[i], _ = c.call(http.MethodPost, certificatePath+"/"+id, string(body), "If-Match", tag)
		})
	}
	all.Wait()
	won := 0
	for _, s := range statuses {
		switch s {
		case http.StatusOK:
			won++
		case http.StatusPreconditionFailed:
		default:
			t.Errorf("status %d", s)
		}
	}
	if won != 1 {
		t.Errorf("%d of 20 won, want 1", won)
	}
}
