package samlidp

import (
	"context"
	"errors"
	"time"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const nsSOAP = "http://schemas.xmlsoap.org/soap/envelope/"

// Logout is a verified LogoutRequest or LogoutResponse.
type Logout struct {
	IsRequest bool
	ID        string
	NameID    NameID   // of a request
	Sessions  []string // SessionIndex of a request. Empty: all of the person
	Success   bool     // of a response
}

// RefusedRequest is the error for a LogoutRequest that can be answered although it is refused.
type RefusedRequest = saml.RefusedRequest

// LogoutWant are the requirements for a logout message.
type LogoutWant struct {
	Destination string
	Request     string // the ID of our request, for a response
	Now         func() time.Time
	// Once marks an ID as used until the given time, or returns idp.ErrReplayed.
	Once func(ctx context.Context, key string, until time.Time) error
}

// ReceiveSOAP reads a logout message in an envelope. Nothing of it is verified.
func ReceiveSOAP(raw []byte) (*Incoming, error) {
	n, err := saml.OpenEnvelope(raw)
	if err != nil {
		return nil, &idp.Invalid{Reason: "the envelope cannot be read", Cause: err}
	}
	in := &Incoming{Binding: SOAP, raw: raw, IsResponse: n.Name() == "LogoutResponse"}
	if in.Issuer, err = saml.Issuer(n); err != nil {
		return nil, &idp.Invalid{Reason: "the envelope cannot be read", Cause: err}
	}
	return in, nil
}

// ReadLogout verifies a logout message. It is always signed. The error is an *idp.Invalid, or another one if that
// cannot be decided.
func (m *Metadata) ReadLogout(ctx context.Context, in *Incoming, want LogoutWant) (*Logout, error) {
	w := saml.LogoutWant{Destination: want.Destination, Request: want.Request, SOAP: in.Binding == SOAP, Now: want.Now, Once: want.Once}
	if in.query != nil && in.query.Signed() {
		if err := m.peer().VerifyQuery(in.query, want.Now()); err != nil {
			return nil, err
		}
		w.Signed = true
	}
	msg, err := m.peer().Logout(ctx, in.raw, w)
	if err != nil {
		return nil, err
	}
	if msg.IsRequest == in.IsResponse {
		return nil, &idp.Invalid{Reason: "the message is not what its parameter says"}
	}
	return &Logout{
		IsRequest: msg.IsRequest, ID: msg.ID, NameID: NameID{msg.NameID.Value, msg.NameID.Format, msg.NameID.SPNameQualifier},
		Sessions: msg.Sessions, Success: msg.Success,
	}, nil
}

// LogoutRequest returns what takes a browser to the service provider, which ends its session. id is that of the
// request. nil: it has no logout service for browsers.
func (w *Writer) LogoutRequest(m *Metadata, id, relay string, name NameID, session string) (*idp.Next, error) {
	return w.sendLogout(m, Redirect, paramRequest, relay, func(to string) *etree.Element { return w.logoutRequest(to, id, name, session) })
}

// LogoutResponse answers a LogoutRequest by the binding that it came by, if the service provider takes answers by it.
// nil: it takes none.
func (w *Writer) LogoutResponse(m *Metadata, binding, request, relay, code, detail string) (*idp.Next, error) {
	id, err := saml.NewID(w.Random)
	if err != nil {
		return nil, err
	}
	return w.sendLogout(m, binding, paramResponse, relay,
		func(to string) *etree.Element { return w.logoutResponse(to, id, request, code, detail) })
}

// SOAPRequest returns the envelope of a LogoutRequest, and the ID of the request.
func (w *Writer) SOAPRequest(m *Metadata, name NameID, session string) (envelope []byte, id string, err error) {
	if id, err = saml.NewID(w.Random); err != nil {
		return nil, "", err
	}
	envelope, err = w.envelope(w.logoutRequest(m.Logout[SOAP].Location, id, name, session))
	return envelope, id, err
}

// SOAPResponse returns the envelope of a LogoutResponse.
func (w *Writer) SOAPResponse(request, code, detail string) ([]byte, error) {
	id, err := saml.NewID(w.Random)
	if err != nil {
		return nil, err
	}
	return w.envelope(w.logoutResponse("", id, request, code, detail))
}

func (w *Writer) envelope(message *etree.Element) ([]byte, error) {
	if err := saml.Sign(message, w.Key); err != nil {
		return nil, err
	}
	e := etree.NewElement("soap:Envelope")
	e.CreateAttr("xmlns:soap", nsSOAP)
	e.CreateElement("soap:Body").AddChild(message)
	return saml.Write(e)
}

func (w *Writer) logoutRequest(to, id string, name NameID, session string) *etree.Element {
	now := w.instant()
	r := schema.LogoutRequest{
		ID: id, Version: version, IssueInstant: now, NotOnOrAfter: new(now.Add(life)), Destination: to, Issuer: w.issuer(),
		NameID: &schema.NameID{Format: name.Format, SPNameQualifier: name.Qualifier, NameQualifier: w.qualifier(name), Value: name.Value},
	}
	if session != "" {
		r.SessionIndex = &schema.SessionIndex{Value: session}
	}
	e := r.Element()
	e.CreateAttr("Reason", "urn:oasis:names:tc:SAML:2.0:logout:user")
	return e
}

func (w *Writer) logoutResponse(to, id, request, code, detail string) *etree.Element {
	status := schema.Status{StatusCode: schema.StatusCode{Value: code}}
	if detail != "" {
		status.StatusCode.StatusCode = &schema.StatusCode{Value: detail}
	}
	r := schema.LogoutResponse{
		ID: id, InResponseTo: request, Version: version, IssueInstant: w.instant(), Destination: to,
		Issuer: w.issuer(), Status: status,
	}
	return r.Element()
}

// sendLogout sends a message to the logout service for browsers, by the preferred binding if there is one.
func (w *Writer) sendLogout(m *Metadata, prefer, param, relay string, build func(to string) *etree.Element) (*idp.Next, error) {
	other := Post
	if prefer != Redirect {
		prefer, other = Post, Redirect
	}
	for _, binding := range []string{prefer, other} {
		service, ok := m.Logout[binding]
		if !ok {
			continue
		}
		to := service.Location
		if param == paramResponse {
			to = service.Response
		}
		e := build(to)
		if binding == Post {
			if err := saml.Sign(e, w.Key); err != nil {
				return nil, err
			}
		}
		raw, err := saml.Write(e)
		if err != nil {
			return nil, err
		}
		if binding == Post {
			return saml.PostTo(to, param, raw, relay)
		}
		return saml.RedirectTo(w.Random, to, param, raw, relay, w.Key)
	}
	return nil, nil //nolint:nilnil // the service provider has no logout service for browsers
}

// ByBrowser reports whether a browser can bring a LogoutRequest to the service provider.
func (m *Metadata) ByBrowser() bool {
	_, redirect := m.Logout[Redirect]
	_, post := m.Logout[Post]
	return redirect || post
}

// SOAPLogout returns the address to which LogoutRequests are posted without a browser. Empty: nowhere.
func (m *Metadata) SOAPLogout() string { return m.Logout[SOAP].Location }

// ErrNotConfirmed says that a service provider has not confirmed a sign-out.
var ErrNotConfirmed = errors.New("samlidp: the service provider has not confirmed the sign-out")
