package jsonapi_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func gate() *jsonapi.Gate {
	return &jsonapi.Gate{Log: zap.NewNop(), Issuer: "https://auth.example.com", Authorize: func(r *http.Request, api string) (string, error) {
		switch id, _, ok := r.BasicAuth(); {
		case !ok:
			return "", fmt.Errorf("%w: nothing", authn.ErrNoCredentials)
		case id == "broken":
			return "", errors.New("the disk is on fire")
		case id != "ops" || api != "things":
			return "", authn.ErrNotAllowed
		default:
			return id, nil
		}
	}}
}

func TestGate(t *testing.T) {
	t.Parallel()
	type headers = map[string]string
	for _, tt := range []struct {
		name, method, user string
		headers            headers
		plain              bool // http
		peer               string
		on                 error
		want               int
	}{
		{name: "no credentials", method: "GET", want: 401},
		{name: "no credentials, a method that there is not", method: "DELETE", want: 401},
		{name: "no credentials, switched off", method: "GET", on: &jsonapi.Error{Status: 409}, want: 401},
		{name: "not allowed", method: "GET", user: "other", want: 403},
		{name: "cannot tell", method: "GET", user: "broken", want: 503},
		{name: "good", method: "GET", user: "ops", want: 200},
		{name: "HEAD", method: "HEAD", user: "ops", want: 200},
		{name: "switched off", method: "GET", user: "ops", on: &jsonapi.Error{Status: 409}, want: 409},
		{name: "switched off before the method", method: "PATCH", user: "ops", on: &jsonapi.Error{Status: 409}, want: 409},
		{name: "another method", method: "PATCH", user: "ops", want: 405},
		{name: "OPTIONS", method: "OPTIONS", user: "ops", want: 405},
		{name: "attack 257: a form of another site", method: "POST", user: "ops", headers: headers{"Sec-Fetch-Site": "cross-site"}, want: 403},
		{name: "attack 257: a form of a sister site", method: "POST", user: "ops", headers: headers{"Sec-Fetch-Site": "same-site"}, want: 403},
		{name: "attack 257: another origin", method: "POST", user: "ops", headers: headers{"Origin": "https://evil.example"}, want: 403},
		{name: "attack 257: no origin at all", method: "POST", user: "ops", headers: headers{"Origin": "null"}, want: 403},
		{
			name: "our own origin", method: "POST", user: "ops",
			headers: headers{"Origin": "https://auth.example.com", "Sec-Fetch-Site": "same-origin"}, want: 200,
		},
		{name: "a browser's address bar", method: "POST", user: "ops", headers: headers{"Sec-Fetch-Site": "none"}, want: 200},
		{name: "attack 258: in clear text", method: "GET", user: "ops", plain: true, peer: "203.0.113.9:4711", want: 403},
		{name: "attack 258: in clear text over IPv6", method: "GET", user: "ops", plain: true, peer: "[2001:db8::1]:4711", want: 403},
		{name: "in clear text from this machine", method: "GET", user: "ops", plain: true, peer: "127.0.0.1:4711", want: 200},
		{name: "in clear text from this machine over IPv6", method: "GET", user: "ops", plain: true, peer: "[::1]:4711", want: 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			serve := func(w http.ResponseWriter, _ *http.Request, client string) error {
				jsonapi.JSON(w, http.StatusOK, client)
				return nil
			}
			var on func(*http.Request) error
			if tt.on != nil {
				on = func(*http.Request) error { return tt.on }
			}
			h := gate().Methods("things", on, map[string]jsonapi.Handler{"GET": serve, "POST": serve})
			r := httptest.NewRequest(tt.method, "/", nil)
			if r.TLS = new(tls.ConnectionState); tt.plain {
				r.TLS, r.RemoteAddr = nil, tt.peer
			}
			if tt.user != "" {
				r.SetBasicAuth(tt.user, "secret")
			}
			for k, v := range tt.headers {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%s as %q = %d, want %d", tt.method, tt.user, w.Code, tt.want)
			}
			checkHeaders(t, w)
		})
	}
}

func checkHeaders(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
	if got := w.Header().Get("X-Content-Type-Options"); got != "nosniff" {
		t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
	}
	if got := w.Header().Get("WWW-Authenticate"); (w.Code == 401) != strings.HasPrefix(got, "Basic ") {
		t.Errorf("status %d with WWW-Authenticate %q", w.Code, got)
	}
	if got := w.Header().Get("Allow"); (w.Code == 405) != (got == "GET, HEAD, POST") {
		t.Errorf("status %d with Allow %q", w.Code, got)
	}
	if got := w.Header().Get("Retry-After"); (w.Code == 503) != (got != "") {
		t.Errorf("status %d with Retry-After %q", w.Code, got)
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		err    error
		status int
		body   string
	}{
		{"ours", &jsonapi.Error{Status: 400, Code: 4002, Message: "bad limit"}, 400, `{"error_code":4002,"error_message":"bad limit"}`},
		{"ours with a cause", (&jsonapi.Error{Status: 409, Message: "no"}).With(errors.New("inner")), 409, `{"error_message":"no"}`},
		{"ours, wrapped", fmt.Errorf("read: %w", jsonapi.NotFound()), 404, `{"error_message":"not found"}`},
		{
			"invalid", jsonapi.Invalid(jsonapi.Problem{Path: "a.b", Problem: "is wrong"}), 400,
			`{"error_message":"a.b: is wrong","details":[{"path":"a.b","problem":"is wrong"}]}`,
		},
		{
			"switched off", &jsonapi.Error{Status: 503, Code: 1001, Message: "not available"}, 503,
			`{"error_code":1001,"error_message":"not available"}`,
		},
		{"storage", fmt.Errorf("x: %w", storage.ErrUnavailable), 503, `{"error_message":"try again later"}`},
		{"full", storage.ErrFull, 503, `{"error_message":"try again later"}`},
		{"gone", context.Canceled, 503, `{"error_message":"try again later"}`},
		{"busy", secret.ErrBusy, 503, `{"error_message":"try again later"}`},
		{"too large", storage.ErrTooLarge, 413, `{"error_message":"too large to be stored"}`},
		{"unknown", errors.New("password hunter2 at /var/lib"), 500, `{"error_message":"internal error"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			core, logs := observer.New(zap.InfoLevel)
			g := gate()
			g.Log = zap.New(core)
			w := httptest.NewRecorder()
			g.Fail(w, httptest.NewRequest(http.MethodGet, "/x", nil), tt.err)
			if w.Code != tt.status || strings.TrimSpace(w.Body.String()) != tt.body {
				t.Errorf("Fail(%v) = %d %s, want %d %s", tt.err, w.Code, w.Body, tt.status, tt.body)
			}
			if logs.Len() != 1 {
				t.Errorf("Fail(%v) logged %d lines, want 1", tt.err, logs.Len())
			}
			if failed := logs.FilterLevelExact(zap.ErrorLevel).Len() == 1; failed != (tt.status >= 500 && tt.name != "switched off") {
				t.Errorf("Fail(%v) logged an error: %t", tt.err, failed)
			}
			var body map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Header().Get("Content-Type") != "application/json;charset=UTF-8" {
				t.Errorf("Fail(%v) wrote %q as %s", tt.err, w.Body, w.Header().Get("Content-Type"))
			}
		})
	}
}
