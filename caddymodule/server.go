package caddymodule

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/routetree"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/slowbody"
	"github.com/gatehouse-id/gatehouse/caddymodule/metrics"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

func init() {
	caddy.RegisterModule(Handler{})
	httpcaddyfile.RegisterHandlerDirective("gatehouse", parseHandler)
	httpcaddyfile.RegisterDirectiveOrder("gatehouse", httpcaddyfile.Before, "respond")
}

// Handler serves every endpoint and page of the issuer, and /healthz. Other paths are not found. A Host other than the
// issuer's is answered with 421, also by the server around the site if no other site has it.
type Handler struct {
	app    *App
	log    *zap.Logger
	origin string // of the issuer
}

// CaddyModule implements caddy.Module.
func (Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.gatehouse", New: func() caddy.Module { return new(Handler) }}
}

// parseHandler reads
//
//	gatehouse [<matcher>]
func parseHandler(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	handler := new(Handler)
	if err := handler.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	if lines := caddyfileutil.Twice(h, "gatehouse"); lines != nil {
		return nil, h.Errf("gatehouse: it is in this site on line %d and on line %d: remove one of them", lines[0], lines[1])
	}
	if h.Option(caddyfileutil.AppName) == nil {
		return nil, h.WrapErr(caddyfileutil.ErrNoApp("gatehouse"))
	}
	return handler, nil
}

// UnmarshalCaddyfile reads the directive, which has neither arguments nor a block.
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	at := d.Token()
	if d.NextArg() {
		return d.Errf("gatehouse: unexpected argument %q", d.Val())
	}
	if n := d.Nesting(); d.NextBlock(n) {
		return caddyfileutil.At(at, errors.New("gatehouse: the directive of a site has no block: its options belong in the global block, `{ gatehouse { ... } }` at the top of the Caddyfile"))
	}
	return nil
}

// Provision finds the app.
func (h *Handler) Provision(ctx caddy.Context) error {
	h.log = ctx.Logger()
	routetree.RefuseOtherHosts(ctx)
	var err error
	if h.app, err = caddyfileutil.App[*App](ctx, "gatehouse"); err != nil {
		return err
	}
	h.origin = h.app.issuer.Scheme + "://" + h.app.issuer.Host
	h.app.served.Store(true)
	if server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server); ok {
		server.RegisterOnShutdown(h.app.endStreams) // it waits for every answer
	}
	return nil
}

// ServeHTTP implements caddyhttp.MiddlewareHandler.
func (h *Handler) ServeHTTP(answer http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	w := &statusWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: answer}}
	defer h.keepFromAccessLog(w, r)
	web.HoldToHTTPS(w.Header(), h.origin)
	body := slowbody.Limit(w, r, slowbody.FormTime)
	defer body.Stop()
	if len(r.Header["Expect"]) > 0 {
		w.held = body
	}
	if r.URL.Path == "/healthz" && isHost(r, h.app.issuer) {
		h.serveHealth(w, r)
		return nil
	}
	inst, err := h.app.enter(r.Context())
	if err != nil {
		h.log.Error("not ready", zap.Error(err))
		notReady(w)
		return nil
	}
	defer inst.leave()
	if !isHost(r, inst.issuer) && !forwardauth.AnyHost(r.URL.Path) &&
		!(r.Host == h.app.certificates.EndpointHost() && authz.TakesCertificates(r.URL.Path)) {
		plain(w, http.StatusMisdirectedRequest, "This is not the address of the issuer.\n")
		return nil
	}
	inst.serve(w, r)
	return nil
}

// serve passes the request to the part that owns its path, counts it, and turns a panic into an error page.
func (i *instance) serve(out *statusWriter, r *http.Request) {
	defer func() {
		if cause := recover(); cause != nil {
			i.recovered(out, r, cause)
		}
		i.core.Metrics.CountRequest(r.URL.Path, out.status)
		if out.status >= http.StatusInternalServerError {
			i.countPanics()
		}
	}()
	if !browserless[metrics.Endpoint(r.URL.Path)] {
		i.identity.Federation.Cleanse(r)
	}
	if i.core.Shared { // where each read is a round trip
		r = r.WithContext(storage.WithTrail(r.Context()))
	}
	switch path := r.URL.Path; {
	case forwardauth.Serves(path) && !dbsc.Handles(path): // the sites of the gates bind no sessions
		i.gates.ServeHTTP(out, r)
	case under(path, i.authz.Paths()):
		i.authz.ServeHTTP(out, r)
	case i.serveAPI(out, r):
	case under(path, i.console.Paths()):
		i.console.ServeHTTP(out, r)
	case under(path, i.identity.Paths()):
		i.identity.ServeHTTP(out, r)
	case under(path, []string{"/api", "/scim"}):
		i.gate.Fail(out, r, jsonapi.NotFound())
	default:
		i.identity.ServeElse(out, r)
	}
}

func (i *instance) recovered(w *statusWriter, r *http.Request, cause any) {
	if cause == http.ErrAbortHandler { //nolint:errorlint // the value itself, as net/http compares it
		panic(cause)
	}
	i.core.Metrics.CountPanic()
	ref := ""
	if w.status == 0 {
		ref = i.pages.Error(w, r, http.StatusInternalServerError, "error.internal", "")
	}
	i.log.Error("panic", zap.String("path", r.URL.Path), zap.String("reference", ref), zap.Any("panic", cause),
		zap.ByteString("stack", debug.Stack()))
	if ref == "" {
		panic(http.ErrAbortHandler) // the answer has begun: the client must see that it is not whole
	}
}

// countPanics adds the panics that authz and identity have caught themselves since the last call.
func (i *instance) countPanics() {
	now := i.authz.Panics() + i.identity.Panics()
	for {
		seen := i.panics.Load()
		if now <= seen {
			return
		}
		if i.panics.CompareAndSwap(seen, now) {
			i.core.Metrics.CountPanics(now - seen)
			return
		}
	}
}

// browserless are endpoints that programs call with credentials of their own. No one signs in there, so nothing reads
// what a proxy says of a person.
var browserless = map[string]bool{"token": true, "revoke": true, "introspect": true, "jwks": true, "discovery": true}

// under reports whether a path is one of the paths, or below one that ends with a slash.
func under(path string, paths []string) bool {
	for _, p := range paths {
		if path == p || strings.HasPrefix(path, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// isHost reports whether the request names the issuer's host. A default port may be left out or written.
func isHost(r *http.Request, issuer *url.URL) bool {
	host := strings.ToLower(r.Host)
	if host == issuer.Host {
		return true
	}
	port := ":443"
	if issuer.Scheme == "http" {
		port = ":80"
	}
	return issuer.Port() == "" && host == issuer.Host+port
}

// health is the answer of GET /healthz.
type health struct {
	Status string `json:"status"`           // ok or unavailable
	Reason string `json:"reason,omitempty"` // why it is unavailable
}

// serveHealth serves GET /healthz: 200 when the store is open and takes writes, otherwise 503 with the reason.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		plain(w, http.StatusMethodNotAllowed, "Method not allowed.\n")
		return
	}
	status, answer := http.StatusOK, health{Status: "ok"}
	if err := h.app.healthy(r.Context()); err != nil {
		status, answer = http.StatusServiceUnavailable, health{Status: "unavailable", Reason: reason(err)}
		ratelimit.RetryAfter(w, ratelimit.Soon)
		h.log.Warn("not healthy", zap.Error(err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// healthy does not wait for Start, unlike other requests: a health check is about this moment.
func (a *App) healthy(ctx context.Context) error {
	select {
	case <-a.ready:
	default:
		return errNotReady
	}
	inst, err := a.enter(ctx)
	if err != nil {
		return err
	}
	defer inst.leave()
	return inst.check(ctx)
}

// reason is the part of an error that is safe to show to anyone.
func reason(err error) string {
	switch {
	case errors.Is(err, errNotReady):
		return "starting"
	case errors.Is(err, errStopped):
		return "stopping"
	default:
		return shared.Reason(err)
	}
}

func notReady(w http.ResponseWriter) {
	ratelimit.RetryAfter(w, time.Second)
	plain(w, http.StatusServiceUnavailable, "Not ready. Try again in a moment.\n")
}

// plain answers with text where a page cannot be made or would not be read.
func plain(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// statusWriter remembers the status of an answer. 0: nothing has been written.
type statusWriter struct {
	caddyhttp.ResponseWriterWrapper
	status int
	held   *slowbody.Body // a body that the client holds back until it is asked for. nil: none
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.begin(status)
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

func (w *statusWriter) begin(status int) {
	w.status = status
	if w.held != nil && !w.held.Begun() {
		// RFC 9110 10.1.1: a final answer says that the body is not wanted. The server would read it first otherwise,
		// and wait for it.
		w.Header().Set("Connection", "close")
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.begin(http.StatusOK)
	}
	return w.ResponseWriterWrapper.Write(b)
}

var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
	_ caddyfile.Unmarshaler       = (*Handler)(nil)
)
