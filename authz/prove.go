package authz

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// keyParam names the key that a code will be bound to. (RFC 9449 10)
const keyParam = "dpop_jkt"

// Proofs checks the proofs of requests to sites.
func (s *Server) Proofs() *dpop.Proofs { return s.proofs }

// prove returns what a client has proved to have in a request to one of our endpoints. spent notes in a transaction
// that the proof was used; nil: no proof was sent.
func (s *Server) prove(w http.ResponseWriter, r *http.Request, c *client.Client) (proved token.Confirmation,
	spent func(storage.Tx) error, err error,
) {
	if len(r.Header[dpop.Header]) == 0 {
		return proved, nil, nil
	}
	proof, err := s.proofs.Check(r.Header, dpop.Request{Method: r.Method, URL: s.addressOf(r)})
	s.proofs.Offer(w.Header(), proof, err)
	if err != nil {
		return proved, nil, err
	}
	if c.FAPI2 && proof.Algorithm == jose.RS256 { // FAPI 2.0 Security Profile 5.4.1
		return proved, nil, dpop.Invalid(nil, "fapi2 refuses RS256: sign the DPoP proof with PS256, ES256 or EdDSA")
	}
	return token.Confirmation{JKT: proof.JKT}, proof.Spend, nil
}

// addressOf is the address of a request as its client knows it: a client with a certificate has it from
// mtls_endpoint_aliases.
func (s *Server) addressOf(r *http.Request) string {
	if at := s.cfg.CertificateEndpoints; at != "" && at == "https://"+r.Host {
		return at + r.URL.Path
	}
	return s.cfg.Issuer + r.URL.Path
}

// bindPush lets the proof of a pushed request stand for dpop_jkt. (RFC 9449 10.1)
func (s *Server) bindPush(w http.ResponseWriter, r *http.Request, c *client.Client,
	params map[string][]string,
) (spent func(storage.Tx) error, err error) {
	proved, spent, err := s.prove(w, r, c)
	if err != nil || proved.JKT == "" {
		return nil, err
	}
	if sent := params[keyParam]; len(sent) > 0 && sent[0] != proved.JKT {
		return nil, dpop.Invalid(nil, "the DPoP proof is signed with another key than that of "+keyParam)
	}
	params[keyParam] = []string{proved.JKT}
	return spent, nil
}

func (s *Server) checkKey(_ context.Context, a *authorizeRequest) error {
	key := a.form.Get(keyParam)
	if key != "" && !challengeForm.MatchString(key) { // a SHA-256 in base64url, as a code_challenge is
		return oauth.InvalidRequest(nil, "dpop_jkt must be 43 characters of base64url")
	}
	a.rec.Key = key
	return nil
}

// proveHolder checks at one of our own resources that the sender of an access token may use it. byProof says that the
// token came by the scheme DPoP.
func (s *Server) proveHolder(w http.ResponseWriter, r *http.Request, text string, byProof bool, in *token.Introspection) error {
	proof, err := s.proofs.Admit(r.Context(), r.Header, dpop.Request{Method: r.Method, URL: s.addressOf(r), Token: text},
		byProof, in.Confirmation.JKT)
	s.proofs.Offer(w.Header(), proof, err)
	if err == nil && !in.Confirmation.MetBy(token.Confirmation{JKT: in.Confirmation.JKT, X5T: s.Thumbprint(r)}) {
		err = &oauth.Error{Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the access token is bound to a certificate"}
	}
	return err
}

// Thumbprint names the certificate of the sender of a request. Empty: it has no valid one.
func (s *Server) Thumbprint(r *http.Request) string { return s.clients.Thumbprint(r) }

// challenge adds to a refusal of a token how one has to be sent. (RFC 6750 3, RFC 9449 7.1)
func challenge(byProof bool, err error) error {
	e := new(oauth.Error)
	if !errors.As(err, &e) || e.Status != http.StatusUnauthorized {
		return err
	}
	params := `, error="` + e.Code + `", error_description="` + e.Description + `"`
	if e.Challenge = dpop.Challenge(params); !byProof {
		e.Challenge = userinfoRealm + params + ", " + dpop.Challenge("")
	}
	return e
}
