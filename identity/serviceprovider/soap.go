package serviceprovider

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
)

const maxEnvelope = 256 << 10 // bytes

// handleSOAP serves POST /sso/logout/soap: a service provider asks for a sign-out without a browser.
func (s *Service) handleSOAP(q *webflow.Request) error {
	if s.deps.KeyPair == nil {
		return webflow.NotFound()
	}
	if !s.deps.Admit(q.Request, 0) {
		return webflow.ErrTooMany
	}
	raw, err := io.ReadAll(http.MaxBytesReader(q.W, q.Body, maxEnvelope))
	if err != nil {
		return s.badRequest(q, "", &idp.Invalid{Reason: "the envelope cannot be read"})
	}
	in, err := samlidp.ReceiveSOAP(raw)
	if err == nil && in.IsResponse {
		err = &idp.Invalid{Reason: "the message is not a request"}
	}
	if err != nil {
		return s.badRequest(q, "", err)
	}
	m, meta, msg, err := s.readLogout(q, in)
	if err != nil {
		return err
	}
	rec, err := s.endFor(q, m, meta, msg)
	if err != nil {
		return s.badRequest(q, m.ID, err)
	}
	w, err := s.writer(q.Context())
	if err != nil {
		return err
	}
	code, detail := rec.status() // the steps stay open: they cannot be taken without the browser
	return s.answerSOAP(q, w, msg.ID, code, detail)
}

// answerSOAP answers a LogoutRequest that came without a browser.
func (s *Service) answerSOAP(q *webflow.Request, w *samlidp.Writer, request, code, detail string) error {
	doc, err := w.SOAPResponse(request, code, detail)
	if err != nil {
		return err
	}
	q.W.Header().Set("Content-Type", "text/xml; charset=utf-8")
	q.W.Header().Set("X-Content-Type-Options", "nosniff")
	q.W.Header().Set("Cache-Control", "no-store")
	_, _ = q.W.Write(doc)
	return nil
}

// sendSOAP posts a LogoutRequest, and reads the answer.
func (s *Service) sendSOAP(ctx context.Context, m *member, meta *samlidp.Metadata, v visitRecord) error {
	w, err := s.writer(ctx)
	if err != nil {
		return err
	}
	envelope, id, err := w.SOAPRequest(meta, nameOf(&v), v.Index)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, meta.SOAPLogout(), bytes.NewReader(envelope))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "text/xml; charset=utf-8")
	req.Header.Set("Soapaction", `"http://www.oasis-open.org/committees/security"`) // SAML bindings 3.2.3.2
	res, err := s.deps.Checked.Do(req)
	if err != nil {
		if failed := new(url.Error); errors.As(err, &failed) { // without the address, which can hold a secret
			err = failed.Err
		}
		return fmt.Errorf("post a LogoutRequest: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxEnvelope))
	if err != nil || res.StatusCode != http.StatusOK {
		return cmp.Or(err, fmt.Errorf("post a LogoutRequest: status %d", res.StatusCode))
	}
	in, err := samlidp.ReceiveSOAP(raw)
	if err != nil {
		return err
	}
	msg, err := meta.ReadLogout(ctx, in, samlidp.LogoutWant{Request: id, Now: s.now, Once: noRequest})
	if err != nil || !msg.Success {
		return cmp.Or(err, samlidp.ErrNotConfirmed)
	}
	return nil
}
