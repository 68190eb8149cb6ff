package saml

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

const (
	statusSuccess   = "urn:oasis:names:tc:SAML:2.0:status:Success"
	statusResponder = schema.StatusResponder
	statusRequester = schema.StatusRequester
)

// End implements idp.Ender: the browser carries a LogoutRequest to the provider. (SAML profiles 4.4)
func (p *Provider) End(ctx context.Context, q idp.EndRequest) (*idp.Next, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var h held
	if err := json.Unmarshal(q.Held, &h); err != nil || h.NameID.Value == "" {
		return nil, nil //nolint:nilnil // the provider does not know the session
	}
	m, err := p.metadata.get(ctx)
	if err != nil {
		return nil, err
	}
	if m.EntityID != h.Idp || len(m.SLO) == 0 {
		return nil, nil //nolint:nilnil // another provider, or one without a logout service
	}
	id, err := newID(p.env.Random)
	if err != nil {
		return nil, err
	}
	next, err := p.sendLogout(ctx, m, bindingRedirect, paramRequest, q.Flow, func(destination string) *etree.Element {
		return p.logoutRequest(id, destination, h)
	})
	if err != nil || next == nil {
		return nil, err
	}
	next.State, err = json.Marshal(flow{ID: id, Idp: m.EntityID})
	return next, err
}

// logoutRequest ends the session that the provider named, or all sessions of the person if it named none.
// (SAML core 3.7.1)
func (p *Provider) logoutRequest(id, destination string, h held) *etree.Element {
	now := issueInstant(p.env.Now())
	r := schema.LogoutRequest{
		ID: id, Version: version, IssueInstant: now, NotOnOrAfter: new(now.Add(timeout * 60)), Destination: destination,
		Issuer: newIssuer(p.entityID),
		NameID: &schema.NameID{
			Format: h.NameID.Format, NameQualifier: h.NameID.NameQualifier, SPNameQualifier: h.NameID.SPNameQualifier, Value: h.NameID.Value,
		},
	}
	if h.Session != "" {
		r.SessionIndex = &schema.SessionIndex{Value: h.Session}
	}
	e := r.Element()
	e.CreateAttr("Reason", "urn:oasis:names:tc:SAML:2.0:logout:user")
	return e
}

// logoutResponse answers the LogoutRequest with the ID request. (SAML core 3.7.2)
func (p *Provider) logoutResponse(id, destination, request, status string) *etree.Element {
	r := schema.LogoutResponse{
		ID: id, InResponseTo: request, Version: version, IssueInstant: issueInstant(p.env.Now()), Destination: destination,
		Issuer: newIssuer(p.entityID),
		Status: schema.Status{StatusCode: schema.StatusCode{Value: status}},
	}
	return r.Element()
}

// sendLogout sends a message to the provider's logout service, by the preferred binding if it is available. It returns
// nil if the provider has no logout service.
func (p *Provider) sendLogout(ctx context.Context, m *idpMetadata, prefer, param, relay string,
	build func(destination string) *etree.Element,
) (*idp.Next, error) {
	key, err := p.signer(ctx)
	if err != nil {
		return nil, err
	}
	other := bindingPost
	if prefer == bindingPost {
		other = bindingRedirect
	}
	for _, binding := range []string{prefer, other} {
		to := m.SLO[binding].Location
		if answer := m.SLO[binding].ResponseLocation; answer != "" && param == paramResponse {
			to = answer
		}
		if to == "" {
			continue
		}
		if err := validEndpoint(to); err != nil {
			return nil, err
		}
		e := build(to)
		if binding == bindingPost {
			if err := sign(e, key); err != nil {
				return nil, err
			}
		}
		doc, err := write(e)
		if err != nil {
			return nil, err
		}
		if binding == bindingPost {
			return post(to, param, doc, relay)
		}
		u, err := redirectURL(p.env.Random, to, param, doc, relay, key)
		return &idp.Next{URL: u}, err
	}
	return nil, nil //nolint:nilnil // the provider has no logout service
}

// Handle implements idp.Handler.
func (p *Provider) Handle(w http.ResponseWriter, r *http.Request, op string, h idp.Host) bool {
	switch op {
	case "metadata":
		p.serveMetadata(w, r, h)
	case "slo":
		p.serveLogout(w, r, h)
	default:
		return false
	}
	return true
}

// serveLogout serves GET and POST /saml/<id>/slo: the provider asks us to sign a person out, or answers our request to
// do so. (SAML profiles 4.4.3)
func (p *Provider) serveLogout(w http.ResponseWriter, r *http.Request, h idp.Host) {
	if p.scheme != nil && p.scheme.soapLogout && isSOAP(r) {
		p.serveSOAP(w, r, h)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	next, err := p.logout(ctx, w, r, h)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	h.Go(w, r, next)
}

// incoming is a logout message before verification.
type incoming struct {
	param, relay, binding string
	raw                   []byte
	query                 *redirected // nil: it came in a form
}

// receive reads a logout message. Nothing of it is verified.
func receive(r *http.Request) (*incoming, error) {
	if r.Method == http.MethodGet {
		q, err := parseRedirect(r.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		return &incoming{q.Param, q.Relay, bindingRedirect, q.Raw, q}, nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, &idp.Invalid{Reason: "the form cannot be read"}
	}
	requests, responses, relay := r.PostForm[paramRequest], r.PostForm[paramResponse], r.PostForm[paramRelay]
	if len(requests)+len(responses) != 1 || len(relay) > 1 {
		return nil, &idp.Invalid{Reason: "the form has no message, or more than one"}
	}
	in := &incoming{param: paramRequest, relay: first(relay), binding: bindingPost}
	if len(responses) == 1 {
		in.param = paramResponse
	}
	var err error
	if in.raw, err = decodeBase64(first(append(requests, responses...))); err != nil {
		return nil, &idp.Invalid{Reason: "the message is not base64"}
	}
	return in, nil
}

func (p *Provider) logout(ctx context.Context, w http.ResponseWriter, r *http.Request, h idp.Host) (*idp.Next, error) {
	m, err := p.metadata.get(ctx)
	if err != nil {
		return nil, err
	}
	in, err := receive(r)
	if err != nil {
		return nil, err
	}
	if in.param == paramResponse {
		return p.signedOut(ctx, w, r, h, in, m)
	}
	msg, m, err := p.verifyLogout(ctx, in, m, "")
	if refused := new(RefusedRequest); errors.As(err, &refused) {
		return p.refuse(ctx, in, m, refused)
	}
	if err != nil {
		return nil, err
	}
	if !msg.IsRequest {
		return nil, &idp.Invalid{Reason: "the message is not a request"}
	}
	return p.signOut(ctx, r, h, in, m, msg)
}

// verifyLogout verifies a logout message. A response must name our request. It returns the metadata by which it did.
func (p *Provider) verifyLogout(ctx context.Context, in *incoming, m *idpMetadata, request string) (*logoutMessage, *idpMetadata, error) {
	var msg *logoutMessage
	m, err := p.metadata.try(ctx, m, func(m *idpMetadata) (err error) {
		want := logoutExpectation{Provider: m, Destination: p.at("slo"), Request: request}
		if in.query != nil { // the signature is outside the message
			if err := in.query.verify(m, p.env.Now()); err != nil {
				return err
			}
			want.Signed = true
		}
		msg, err = p.verifier.logoutMessage(ctx, in.raw, want)
		return err
	})
	return msg, m, err
}

// signedOut reads the provider's answer to our LogoutRequest. The person is signed out here already, so the browser
// continues to the address that they asked for, whatever the answer says and even if it cannot be believed. An answer
// to no sign-out of this browser is refused.
func (p *Provider) signedOut(ctx context.Context, w http.ResponseWriter, r *http.Request, h idp.Host, in *incoming,
	m *idpMetadata,
) (*idp.Next, error) {
	if !isFlow(in.relay) {
		return nil, &idp.Invalid{Reason: "the LogoutResponse belongs to no sign-out"}
	}
	state, ret, err := h.Ended(w, r, in.relay)
	if errors.Is(err, idp.ErrNoFlow) {
		return nil, &idp.Invalid{Reason: "the LogoutResponse belongs to no sign-out of this browser"}
	}
	if err != nil {
		return nil, err
	}
	err = p.readSignedOut(ctx, in, m, state)
	if err != nil && !errors.As(err, new(*idp.Invalid)) {
		return nil, err
	}
	if err != nil {
		p.env.Log.Warn("the provider's answer to a sign-out is refused: the person can still be signed in there", zap.NamedError("cause", err))
	}
	return &idp.Next{URL: ret}, nil
}

// readSignedOut verifies an answer to our LogoutRequest.
func (p *Provider) readSignedOut(ctx context.Context, in *incoming, m *idpMetadata, state []byte) error {
	var f flow
	if err := json.Unmarshal(state, &f); err != nil || f.ID == "" {
		return &idp.Invalid{Reason: "the flow is not a sign-out"}
	}
	msg, _, err := p.verifyLogout(ctx, in, m, f.ID)
	switch {
	case err != nil:
		return err
	case msg.IsRequest:
		return &idp.Invalid{Reason: "the message is not a response"}
	case !msg.Success:
		p.env.Log.Info("the provider has not signed out everywhere", zap.String("status", msg.Status), zap.String("cause", msg.Cause))
	}
	return nil
}

// isSOAP reports whether a request is a message of the provider itself, not of a browser: a form cannot have this type.
func isSOAP(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && r.Method == http.MethodPost && kind == "text/xml" // SAML bindings 3.2.3
}

// serveSOAP serves POST /saml/<id>/slo of the provider itself: it asks us to sign a person out, with a signed request
// in a SOAP envelope. (SAML bindings 3.2)
func (p *Provider) serveSOAP(w http.ResponseWriter, r *http.Request, h idp.Host) {
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	doc, err := p.logoutBySOAP(ctx, r, h)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(doc)))
	_, _ = w.Write(doc)
}

// logoutBySOAP returns the answer to a LogoutRequest in a SOAP envelope.
func (p *Provider) logoutBySOAP(ctx context.Context, r *http.Request, h idp.Host) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, safexml.MaxMessage+1))
	if err != nil || len(raw) > safexml.MaxMessage {
		return nil, &idp.Invalid{Reason: "the message cannot be read, or is too long"}
	}
	m, err := p.metadata.get(ctx)
	if err != nil {
		return nil, err
	}
	root, message, err := openEnvelope(raw)
	if err != nil {
		return nil, invalidBy("the envelope", err)
	}
	var msg *logoutMessage
	m, err = p.metadata.try(ctx, m, func(m *idpMetadata) (err error) {
		msg, err = p.verifier.logoutIn(ctx, root, message, logoutExpectation{Provider: m, Destination: p.at("slo"), SOAP: true})
		return err
	})
	if refused := new(RefusedRequest); errors.As(err, &refused) {
		p.logRefused(refused)
		return p.soapResponse(ctx, refused.ID, statusRequester)
	}
	if err != nil {
		return nil, err
	}
	if !msg.IsRequest {
		return nil, &idp.Invalid{Reason: "the message is not a request"}
	}
	return p.soapResponse(ctx, msg.ID, p.endSessions(ctx, r, h, m, msg))
}

// soapResponse returns the answer to the LogoutRequest with the ID request, in a SOAP envelope.
func (p *Provider) soapResponse(ctx context.Context, request, status string) ([]byte, error) {
	id, err := newID(p.env.Random)
	if err != nil {
		return nil, err
	}
	key, err := p.signer(ctx)
	if err != nil {
		return nil, err
	}
	answer := p.logoutResponse(id, "", request, status)
	answer.RemoveAttr("Destination") // the answer takes the way of the request
	if err := sign(answer, key); err != nil {
		return nil, err
	}
	return write(enveloped(answer))
}

// signOut ends the sessions that a LogoutRequest names, and answers it.
func (p *Provider) signOut(ctx context.Context, r *http.Request, h idp.Host, in *incoming, m *idpMetadata,
	msg *logoutMessage,
) (*idp.Next, error) {
	next, err := p.answerLogout(ctx, in, m, msg.ID, p.endSessions(ctx, r, h, m, msg))
	if err == nil && next == nil {
		next = &idp.Next{URL: h.Home()}
	}
	return next, err
}

// refuse answers a LogoutRequest that is refused, so the provider goes on with its other parties. A provider without an
// address for answers gets none, and the person an error page. (SAML core 3.7.3.2, profiles 4.4.4.2)
func (p *Provider) refuse(ctx context.Context, in *incoming, m *idpMetadata, refused *RefusedRequest) (*idp.Next, error) {
	next, err := p.answerLogout(ctx, in, m, refused.ID, statusRequester)
	if err == nil && next == nil {
		return nil, refused
	}
	p.logRefused(refused)
	return next, err
}

func (p *Provider) logRefused(refused *RefusedRequest) {
	p.env.Log.Warn("the provider's request to sign a person out is refused: the person can still be signed in here",
		zap.NamedError("cause", refused.Err))
}

// answerLogout returns the way of an answer to the LogoutRequest with the ID request, nil if the provider has no
// address for it.
func (p *Provider) answerLogout(ctx context.Context, in *incoming, m *idpMetadata, request, status string) (*idp.Next, error) {
	id, err := newID(p.env.Random)
	if err != nil {
		return nil, err
	}
	return p.sendLogout(ctx, m, in.binding, paramResponse, in.relay, func(destination string) *etree.Element {
		return p.logoutResponse(id, destination, request, status)
	})
}

// endSessions ends the sessions that a LogoutRequest names, and returns the status of the answer.
func (p *Provider) endSessions(ctx context.Context, r *http.Request, h idp.Host, m *idpMetadata, msg *logoutMessage) string {
	names := sessionNames(msg.NameID.Value, msg.Sessions...)
	if len(names) > 1 { // only these sessions (SAML core 3.7.1)
		names = names[1:]
	}
	if _, err := h.EndSessions(ctx, idp.EndQuery{Issuer: m.EntityID, Sessions: names}, r); err != nil {
		// The answer must not say that the sign-out is complete.
		p.env.Log.Error("sessions cannot be ended for the provider", zap.Error(err))
		return statusResponder
	}
	return statusSuccess
}
