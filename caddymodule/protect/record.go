package protect

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
)

// recording is a call that is being recorded. (docs/decisions/gateway.md#audit)
type recording struct {
	call     calllog.Call
	log      *calllog.Log
	received atomic.Int64 // the upstream's side reads on its own
}

// recordCall begins the record of a request that may pass, if the site or the deciding rule wants one.
func (p *Protect) recordCall(g *requestState) {
	how, rule := p.Audit, g.decision.Rule
	if rule != nil {
		how = cmp.Or(rule.Audit, how)
	}
	if how == "" || g.entrance.Calls == nil {
		return
	}
	from := p.origin(g.r)
	rec := &recording{log: g.entrance.Calls, call: calllog.Call{
		At: p.now(), Site: askedAt(g), Method: g.r.Method, Path: original(g.r).Path, Verdict: string(Allow), IP: from.ClientIP,
		UserAgent: from.UserAgent,
		Chained:   how == policy.AuditEvents,
	}}
	if g.who == nil {
		rec.call.ClientID = g.rules.Agent()
	} else {
		rec.call.ClientID, rec.call.AppPassword, rec.call.SessionID = g.who.ClientID, g.who.AppPassword, g.who.SessionID
	}
	switch {
	case g.credential.granted:
		rec.call.Verdict = "granted"
	case rule != nil:
		rec.call.Rule = rule.Label()
	}
	if g.who != nil && g.who.Person != nil {
		who := g.who.Person
		rec.call.PersonID, rec.call.Username, rec.call.Partition = who.ID, who.Username, who.Partition
	}
	if g.r.Body != nil && g.r.Body != http.NoBody {
		g.r.Body = &receivedBody{g.r.Body, &rec.received}
	}
	g.recording = rec
}

// receivedBody counts what is read of a body.
type receivedBody struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *receivedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// sent notes a part of the answer.
func (r *recording) sent(n int64) {
	if r == nil {
		return
	}
	r.call.Status = cmp.Or(r.call.Status, http.StatusOK)
	r.call.Sent += n
}

// answered notes the status of the answer.
func (r *recording) answered(status int) {
	if r != nil && r.call.Status == 0 {
		r.call.Status = status
	}
}

// end records the call. err is that of the handlers behind protect.
func (r *recording) end(p *Protect, err error) {
	if r.call.Status == 0 && err != nil {
		r.call.Status = http.StatusInternalServerError
		var failed caddyhttp.HandlerError
		if errors.As(err, &failed) && failed.StatusCode > 0 {
			r.call.Status = failed.StatusCode
		}
	}
	r.call.Received, r.call.Took = r.received.Load(), p.now().Sub(r.call.At)
	r.log.Add(&r.call)
}
