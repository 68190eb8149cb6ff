package scim_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/scim"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

const (
	issuer   = "https://auth.example.com"
	password = "correct horse 1"

	coreUser   = "urn:ietf:params:scim:schemas:core:2.0:User"
	coreGroup  = "urn:ietf:params:scim:schemas:core:2.0:Group"
	enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
	ours       = "urn:gatehouse:params:scim:schemas:extension:2.0:User"
	oursGroup  = "urn:gatehouse:params:scim:schemas:extension:2.0:Group"
	patchOp    = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// clock advances a second at each reading, so a later change has a later time.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

type harness struct {
	*scim.Server
	t        testing.TB
	identity *identity.Service
	store    storage.Store
	logs     *observer.ObservedLogs
	units    settings.Units
	off      bool
	only     []string    // partitions that the caller is limited to
	header   http.Header // of each request, in addition to the usual ones
}

func newHarness(t testing.TB, change ...func(*identity.Config)) *harness {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	core, logs := observer.New(zapcore.DebugLevel)
	tested := storagetest.Closures(t, store)
	h := &harness{t: t, store: tested, logs: logs, units: settings.Defaults(), header: http.Header{}}
	log := zap.New(core)
	pages, err := web.New(web.Config{Issuer: issuer, Key: make([]byte, 32), Random: rand.Reader, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	cfg := identity.Config{Issuer: issuer}
	for _, f := range change {
		f(&cfg)
	}
	h.identity, err = identity.New(t.Context(), cfg, identity.Deps{
		Units: func(storage.Tx) (*settings.Units, error) { return &h.units, nil },
		Store: tested, Hasher: secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100}),
		Pages: pages, Log: log, Now: c.Now,
		Random: rand.Reader, Events: &audit.Recorder{Random: rand.Reader, Now: c.Now},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Server, err = scim.New(scim.Deps{
		Identity: h.identity, Issuer: issuer, Log: log,
		Authorize: func(r *http.Request) (scim.Caller, error) {
			switch r.Header.Get("Authorization") {
			case "Bearer good":
				return scim.Caller{Actor: audit.Actor{ID: "hr", Name: "hr"}, Partitions: h.only}, nil
			case "Bearer vouching":
				return scim.Caller{Actor: audit.Actor{ID: "directory", Name: "directory"}, Vouches: true}, nil
			case "Bearer weak":
				return scim.Caller{}, authn.ErrNotAllowed
			case "Bearer down":
				return scim.Caller{}, storage.ErrUnavailable
			}
			return scim.Caller{}, authn.ErrNoCredentials
		},
		Enabled: func(context.Context) (bool, error) { return !h.off, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// do sends a request. body is JSON as text, or what becomes JSON.
func (h *harness) do(method, path string, body any) answer {
	h.t.Helper()
	raw, isText := body.(string)
	if !isText && body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			h.t.Fatal(err)
		}
		raw = string(b)
	}
	r := httptest.NewRequest(method, issuer+"/scim/v2"+path, strings.NewReader(raw))
	r.Header.Set("Authorization", "Bearer good")
	r.Header.Set("Content-Type", "application/scim+json")
	for name, values := range h.header {
		r.Header.Del(name)
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), raw: w.Body.String()}
	if w.Body.Len() > 0 {
		if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
			h.t.Fatalf("%s %s: answer %d is not JSON: %s", method, path, w.Code, a.raw)
		}
	}
	if w.Code >= 400 && w.Code != http.StatusNotModified {
		h.checkError(method, path, a)
	}
	return a
}

// checkError: a refusal has the form of RFC 7644 3.12.
func (h *harness) checkError(method, path string, a answer) {
	h.t.Helper()
	if a.body["status"] != fmt.Sprint(a.status) || fmt.Sprint(a.body["schemas"]) != "[urn:ietf:params:scim:api:messages:2.0:Error]" {
		h.t.Errorf("%s %s: refusal %d has the body %s", method, path, a.status, a.raw)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" ||
		a.header.Get("Content-Type") != "application/scim+json" {
		h.t.Errorf("%s %s: refusal %d has the headers %v", method, path, a.status, a.header)
	}
}

// want sends a request and demands a status.
func (h *harness) want(status int, method, path string, body any) answer {
	h.t.Helper()
	a := h.do(method, path, body)
	if a.status != status {
		h.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.raw)
	}
	return a
}

// refused sends a request and demands a refusal.
func (h *harness) refused(status int, scimType, method, path string, body any) {
	h.t.Helper()
	a := h.do(method, path, body)
	got, _ := a.body["scimType"].(string)
	if a.status != status || got != scimType {
		h.t.Errorf("%s %s %v: status %d %q, want %d %q: %s", method, path, body, a.status, got, status, scimType, a.raw)
	}
}

// add makes a user and returns the id. more are further members.
func (h *harness) add(username string, more map[string]any) string {
	h.t.Helper()
	o := map[string]any{"schemas": []string{coreUser}, "userName": username}
	for k, v := range more {
		o[k] = v
	}
	return h.want(http.StatusCreated, "POST", "/Users", o).body["id"].(string)
}

func (h *harness) addGroup(name string, members ...string) string {
	h.t.Helper()
	list := []any{}
	for _, m := range members {
		list = append(list, map[string]any{"value": m})
	}
	return h.want(http.StatusCreated, "POST", "/Groups",
		map[string]any{"schemas": []string{coreGroup}, "displayName": name, "members": list}).body["id"].(string)
}

// patch is a PATCH of operations: op, path, value each.
func patch(ops ...any) map[string]any {
	list := []any{}
	for i := 0; i+2 < len(ops); i += 3 {
		o := map[string]any{"op": ops[i]}
		if ops[i+1] != "" {
			o["path"] = ops[i+1]
		}
		if ops[i+2] != nil {
			o["value"] = ops[i+2]
		}
		list = append(list, o)
	}
	return map[string]any{"schemas": []string{patchOp}, "Operations": list}
}

// at follows names and indexes into an answer and prints the value.
func (a answer) at(path ...any) string {
	var v any = a.body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			o, _ := v.(map[string]any)
			v = o[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return ""
			}
			v = list[p]
		}
	}
	if v == nil {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// names are the usernames or display names of a list.
func (a answer) names() string {
	var out []string
	list, _ := a.body["Resources"].([]any)
	for _, v := range list {
		o, _ := v.(map[string]any)
		name, _ := o["userName"].(string)
		if name == "" {
			name, _ = o["displayName"].(string)
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// checkLogs: nothing secret in any log line.
func (h *harness) checkLogs(secrets ...string) {
	h.t.Helper()
	var all bytes.Buffer
	for _, e := range h.logs.All() {
		fmt.Fprintln(&all, e.Message, e.ContextMap())
	}
	for _, s := range append(secrets, password) {
		if strings.Contains(all.String(), s) {
			h.t.Errorf("the log tells %q", s)
		}
	}
}
