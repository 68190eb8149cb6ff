package qrlogin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// PhonePath is the path for a phone that has scanned a code.
	PhonePath = "/phone"

	kindWaiting = "waiting" // cookie of the browser that shows a code: it alone is signed in
	kindPhone   = "scanned" // cookie with the token on the phone

	codeLife     = 2 * time.Minute
	approvalLife = 2 * time.Minute // within which the browser that waits has to come for it
	codesPerNet  = 30              // before the first wait
)

// waiting is a request of the page that shows a code.
type waiting struct {
	*webflow.Request

	id   string // of the flow
	flow webflow.FlowRecord
	way  *way
	self string
	rec  *codeRecord // nil: none was made
	own  bool        // this browser shows it
	only bool        // there is no other way to sign in
}

func (x *waiting) form() string { return "phone-code:" + x.id }

// readWaiting reads what the two handlers of the page share.
func (s *Service) readWaiting(q *webflow.Request) (*waiting, error) {
	id, f, err := s.deps.Front.FlowIn(q)
	if err != nil {
		return nil, err
	}
	method := q.URL.Query().Get("idp")
	q.Again = webflow.FlowURL(id)
	x := &waiting{Request: q, id: id, flow: f, self: federation.PhoneURL(id, method)}
	if q.SignIn != nil && s.deps.Front.Satisfies(q.SignIn, f.Demand) { // signed in meanwhile
		return nil, cmp.Or(s.deps.Front.Return(q, id, f), webflow.ErrAnswered)
	}
	if !q.Settings.Features.LoginEnabled {
		return nil, session.ErrClosed
	}
	known, err := s.deps.Federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	ways := known.Ways(f.Demand)
	x.only = ways.PhoneAlone() || ways.Alone()
	offered := ways.Phone
	if method != "" {
		p := ways.Find(method)
		offered = p != nil && p.Phone
	}
	if x.way = s.wayOf(q.Settings, method); x.way == nil || !offered {
		return nil, &webflow.Answer{Status: http.StatusForbidden, Key: "error.no_idp", Again: q.Again}
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		rec, found, err := codes.Find(tx, id)
		if found {
			x.rec = &rec
		}
		return err
	})
	x.own = x.rec != nil && x.rec.Method == method && x.rec.Browser == challenge.Hashed(s.deps.Jar.Get(q.Request, kindWaiting))
	return x, err
}

// showCode serves GET /sign-in/phone?flow=…: a code and a number, until a phone has approved it. Without a flow it
// begins one.
func (s *Service) showCode(q *webflow.Request) error {
	if q.URL.Query().Get("flow") == "" {
		return s.start(q)
	}
	x, err := s.readWaiting(q)
	if err != nil {
		return err
	}
	if q.Method == http.MethodHead {
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again"})
	}
	if x.rec == nil {
		return s.make(x)
	}
	if !x.own { // it stands in another window, or the browser was closed meanwhile
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again"})
	}
	switch x.rec.state(s.deps.Now()) {
	case stateWaiting:
		return s.waitPage(x)
	case stateApproved:
		return s.take(x)
	case stateDenied:
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again", Problem: "problem.scan_denied"})
	case stateWrong:
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again", Problem: "problem.scan_wrong"})
	}
	return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again", Problem: "problem.scan_over"})
}

// handleCode serves POST /sign-in/phone?flow=…: another code in place of the one before.
func (s *Service) handleCode(q *webflow.Request) error {
	x, err := s.readWaiting(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), x.self)
	}
	if err != nil {
		return err
	}
	return s.make(x)
}

// start begins a sign-in that no application has asked for, and shows its code.
func (s *Service) start(q *webflow.Request) error {
	q.Again = federation.PhonePath
	to := webflow.Landing(q.Settings, webflow.Allowed(q.Settings, q.URL.Query().Get("redirect")))
	if q.SignIn != nil {
		return q.LeaveTo(to)
	}
	if s.wayOf(q.Settings, "") == nil {
		return webflow.NotFound()
	}
	d := authn.Demand{
		MaxAge: -1, Return: cmp.Or(web.LocalPath(to), person.DefaultReturn),
		Client: authn.Client{Targets: webflow.TargetsOf(to)},
	}
	id, err := s.deps.Front.NewFlow(q.W, q.Request, d)
	if err == nil && web.LocalPath(to) == "" {
		err = s.deps.Front.ChangeFlow(q.Context(), id, func(f *webflow.FlowRecord) { f.Elsewhere = to })
	}
	if err != nil {
		return err
	}
	return q.Redirect(federation.PhoneURL(id, ""))
}

func purpose(flow string) string { return "code for a phone " + flow }

// newNumber returns two digits, the first of which is not zero.
func (s *Service) newNumber() (string, error) {
	first, err := secret.Text(s.deps.Random, "123456789", 1)
	if err != nil {
		return "", err
	}
	second, err := secret.Text(s.deps.Random, "0123456789", 1)
	return first + second, err
}

// make makes a code, in place of the one before, and redirects to the page that shows it.
func (s *Service) make(x *waiting) error {
	token, err := secret.NewToken(s.deps.Random, secret.PhoneCode)
	if err != nil {
		return err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return err
	}
	browser, err := s.deps.Front.NewID()
	if err != nil {
		return err
	}
	sealed, err := s.deps.Keyring.Seal(purpose(x.id), []byte(token))
	if err != nil {
		return err
	}
	now, from := s.deps.Now(), s.deps.Origin(x.Request.Request)
	rec := codeRecord{
		ID: id, Token: secret.Hash(token), Sealed: sealed, Browser: secret.Hash(browser), Method: x.way.id, Client: x.flow.Demand.Client.ID,
		Name: x.flow.Demand.Client.Name, Address: from.ClientIP, Agent: session.KeptAgent(from.UserAgent), At: now, Expires: now.Add(codeLife),
	}
	if rec.Number, err = s.newNumber(); err != nil {
		return err
	}
	before, network, wait := "", secret.LineOf(from.ClientIP), time.Duration(0)
	if x.rec != nil {
		before = x.rec.Token
	}
	err = s.deps.Store.Update(x.Context(), func(tx storage.Tx) (err error) {
		last, found, err := codes.Find(tx, x.id)
		if err != nil {
			return err
		}
		if found && last.Token != before {
			return errWaits
		}
		if wait, err = s.deps.Proof.CountRequest(tx, "phone-code", network, codesPerNet, now); err != nil || wait > 0 {
			return err
		}
		if found {
			if err := codeKeys.Delete(tx, last.Token); err != nil {
				return err
			}
		}
		until := rec.Expires.Add(session.CollectAfter)
		if err := codes.Put(tx, x.id, rec, until); err != nil {
			return err
		}
		return codeKeys.Create(tx, rec.Token, x.id, until)
	})
	switch {
	case errors.Is(err, errWaits): // the button was pressed twice
	case err != nil:
		return err
	case wait > 0:
		s.deps.Front.Refuse(x.Request,
			denial.Refusal{Where: denial.SignIn, Reason: denial.Throttled, By: "phone", ClientID: rec.Client}, errTooMany)
		return s.codePage(x, http.StatusTooManyRequests,
			web.Push{Key: "scan_again", Problem: "problem.wait", Wait: webflow.RetryAfter(x.W, wait)})
	default:
		s.deps.Jar.Set(x.W, kindWaiting, browser, 0)
	}
	return x.Redirect(x.self)
}

// waitPage writes the code that waits.
func (s *Service) waitPage(x *waiting) error {
	open, err := s.deps.Keyring.Open(purpose(x.id), x.rec.Sealed)
	if err != nil { // the key that sealed it is gone
		return s.codePage(x, http.StatusOK, web.Push{Key: "scan_again"})
	}
	in := web.Push{Key: "scan", Number: x.rec.Number, Refresh: true, Link: linkOf(s.deps.Issuer, string(open)), Open: x.way.open(string(open))}
	code, err := qr.Encode(in.Link, qr.M)
	if err != nil {
		return err
	}
	drawn := web.NewQR(code.Size, code.Black)
	in.QR = &drawn
	if x.way.by != byBrowser {
		in.Stores = x.way.stores()
	}
	return s.codePage(x, http.StatusOK, in)
}

// stores are the places that have the app.
func (w *way) stores() (out []web.FormLink) {
	if w.links.AppStoreLink != "" {
		out = append(out, web.FormLink{Label: "push_scan.app_store", URL: w.links.AppStoreLink})
	}
	if w.links.AndroidStoreLink != "" {
		out = append(out, web.FormLink{Label: "push_scan.play_store", URL: w.links.AndroidStoreLink})
	}
	return out
}

func linkOf(issuer, token string) string {
	return issuer + PhonePath + "?" + url.Values{challenge.LinkParam: {token}}.Encode()
}

// codePage writes a page of the browser that waits. Without a code it has a button for one.
func (s *Service) codePage(x *waiting, status int, in web.Push) (err error) {
	if in.ForClient = true; !x.only {
		in.Others = webflow.FlowURL(x.id) + "&choose=1"
	}
	in.Cancel = web.LocalPath(x.flow.Demand.Cancel)
	if in.QR == nil {
		in.Action = x.self
		if in.CSRF, err = s.deps.Front.FormToken(x.Request, x.form()); err != nil {
			return err
		}
	}
	s.deps.Pages.Render(x.W, x.Request.Request, s.deps.Front.View(x.flow.Demand, "push", status, in))
	return nil
}
