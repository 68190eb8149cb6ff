package protect

import (
	"fmt"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	refusals "github.com/gatehouse-id/gatehouse/internal/denial"
)

// ServeHTTP lets a request pass to the next handler or answers it.
func (p *Protect) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	return p.pass(&requestState{ResponseWriter: w, protect: p, r: r}, next)
}

// pass is the one way through protect, for requests and for those that are rehearsed.
func (p *Protect) pass(g *requestState, next caddyhttp.Handler) error {
	if !p.admit(g) {
		return nil
	}
	return g.forward(next)
}

// admit decides about a request. false: it has been answered. A panic refuses the request.
func (p *Protect) admit(g *requestState) (ok bool) {
	defer g.close()
	defer func() {
		if v := recover(); v != nil {
			ok = false
			if c := g.entrance.Counter; c != nil {
				c.CountPanic()
			}
			p.log.Error("panic", zap.Any("panic", v), zap.Stack("stack"))
			p.writeRefusal(g, &refusal{
				reason: refusals.Internal, status: http.StatusInternalServerError, code: "server_error",
				text: "internal error", page: "error.internal",
			})
		}
	}()
	shorten(g.r)
	g.upgrade, g.webSocket = g.r.ProtoMajor == 1 && len(g.r.Header["Upgrade"]) > 0, isWebSocket(g.r)
	if bad := p.form(g); bad != nil {
		return p.writeRefusal(g, bad)
	}
	switch p.metadata.Serve(g.ResponseWriter, g.r) {
	case 0:
	case http.StatusMethodNotAllowed:
		g.reason = refusals.MethodNotAllowed
		return false
	default:
		g.metadata = true
		return false
	}
	if err := p.bind(g); err != nil {
		return p.writeRefusal(g, cannotTell(err))
	}
	asks := g.ruling.asks
	asks.Path = asks.Path || len(g.ruling.public) > 0
	if bad := readable(g.r, asks); bad != nil {
		return p.writeRefusal(g, bad)
	}
	guarded, err := p.guards(g.r)
	p.cleanse(g, guarded)
	for _, provider := range p.idps {
		provider.Cleanse(g.r)
	}
	if err != nil {
		return p.writeRefusal(g, cannotTell(fmt.Errorf("matcher: %w", err)))
	}
	if guarded {
		if bad := p.limitAddress(g); bad != nil {
			return p.writeRefusal(g, bad)
		}
	}
	rec := receive(g.r)
	if p.Login && p.ownPath(g, rec) {
		return false
	}
	if guarded && g.ruling.missing != "" {
		return p.writeRefusal(g, missing(g.ruling.missing))
	}
	if p.replay && p.resume(g, rec) {
		return false
	}
	if guarded && !g.ruling.public.Match(g.r.URL.Path) && !(p.Preflight && isPreflight(g.r)) {
		return p.judge(g, rec)
	}
	if g.kept != "" { // nothing is kept for open paths
		return p.writeRefusal(g, &nothingKept)
	}
	if guarded {
		bad := p.closed(g)
		if bad == nil {
			bad = p.limitCaller(g, nil, "")
		}
		if bad != nil {
			return p.writeRefusal(g, bad)
		}
	}
	if guarded || !introduced(g.r) {
		placeholders(g.r, nil, p.now)
	}
	p.stripCredentials(g, rec)
	return true
}
