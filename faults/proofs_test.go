package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// proofsAfterKill is F22: a DPoP proof that was used counts for nothing after the server was killed a moment later, and
// after it was told to end. A client gets on at once: with a nonce after the kill, without one otherwise.
func proofsAfterKill(t *testing.T, rep *report) {
	s := start(t, lab.Config{}, 1).Server
	key, err := lab.NewProver()
	if err != nil {
		t.Fatal(err)
	}
	proof := func(method, at, token, nonce string) string {
		t.Helper()
		p, err := key.Proof(method, at, token, nonce)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	token := boundToken(t, s, proof("POST", s.Issuer()+"/oauth/token", "", ""))
	site := s.APISite() + "/orders"
	ask := func(proof string) lab.Answer {
		return s.Get(t.Context(), site, "Authorization", "DPoP "+token, "DPoP", proof)
	}
	want := func(what, proof string, status int) (nonce string) {
		t.Helper()
		a := ask(proof)
		if a.Status != status {
			t.Errorf("%s = %d %v, want %d", what, a.Status, a.Err, status)
		}
		return a.Header.Get("DPoP-Nonce")
	}
	const n = 20
	var used []string
	use := func(nonce string) {
		t.Helper()
		for range n {
			used = append(used, proof("GET", site, token, nonce))
			want("a proof", used[len(used)-1], http.StatusOK)
		}
	}
	again := func(when string) {
		t.Helper()
		for _, p := range used {
			want(when+", a proof again", p, http.StatusUnauthorized)
		}
	}
	begin := func() {
		t.Helper()
		if _, err := s.StartReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	restart := func() {
		t.Helper()
		if err := s.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err, gone := s.WaitExit(30 * time.Second); !gone || err != nil {
			t.Fatalf("after SIGTERM: ended %t, %v", gone, err)
		}
		begin()
	}
	use("")
	again("at once")
	restart()
	again("after SIGTERM")
	use("")
	s.Kill() // before the last ones can be written
	begin()
	again("after kill -9")
	nonce := want("after kill -9, a new proof", proof("GET", site, token, ""), http.StatusUnauthorized)
	if nonce == "" {
		t.Error("after kill -9 a client gets no nonce")
	}
	use(nonce)
	restart()
	again("after kill -9 and SIGTERM")
	rep.add("%d used proofs refused after SIGTERM, %d after kill -9, %d after both", n, 2*n, 3*n)
}

// boundToken gets an access token that is bound to the key of a proof.
func boundToken(t *testing.T, s *lab.Server, proof string) string {
	t.Helper()
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("DPoP", proof)
	req.SetBasicAuth(lab.MachineID, s.Machine)
	res, err := s.HTTP.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	body, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	if err != nil || answer.Type != "DPoP" {
		t.Fatalf("the token endpoint answered %d %s, %v, want a token of type DPoP", res.StatusCode, body, err)
	}
	return answer.Token
}
