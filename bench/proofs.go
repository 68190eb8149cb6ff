package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// The rows of a token that is bound to a key. (RFC 9449)
const (
	rowBearer = "protect, client token, one request at a time"
	rowProof  = "protect, client token with DPoP, one request at a time"
	rowProofs = "protect, client token with DPoP"
)

// proving compares requests with a proof with those without, as clients send them one after the other, and many at a
// time, which share a sync of the disk.
func (b *bench) proving() error {
	p, err := lab.NewProver()
	if err != nil {
		return err
	}
	token, err := b.boundToken(p)
	if err != nil {
		return err
	}
	proved := func(conns int) target {
		t := b.api("client")
		at := fmt.Sprintf("http://localhost:%d/orders", b.server.Ports.API)
		t.conns = conns
		t.next = func() ([]byte, error) {
			proof, err := p.Proof("GET", at, token, "")
			return lab.Request("GET", strings.TrimSuffix(strings.TrimPrefix(at, "http://"), "/orders"), "/orders", "", "Authorization",
				"DPoP "+token, "DPoP", proof), err
		}
		return t
	}
	one := b.api("client")
	one.conns = 1
	f, err := b.medians(namedTarget{rowBearer, one}, namedTarget{rowProof, proved(1)}, namedTarget{rowClient, b.api("client")},
		namedTarget{rowProofs, proved(16)})
	if err != nil {
		return err
	}
	verify, err := verifyCost()
	if err != nil {
		return err
	}
	b.note("verifying a signature by ES256, alone", "%.1f µs of processor", verify)
	b.atMost("protect with DPoP, µs of processor above a bearer token, one request at a time", f[rowProof].cpu-f[rowBearer].cpu, 140)
	b.atMost("protect with DPoP, µs of processor above a bearer token", f[rowProofs].cpu-f[rowClient].cpu, 140)
	return nil
}

// boundToken gets an access token that is bound to the key of p.
func (b *bench) boundToken(p *lab.Prover) (string, error) {
	at := b.server.Issuer() + "/oauth/token"
	proof, err := p.Proof("POST", at, "", "")
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"client_credentials"}, "scope": {lab.Scope}}
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	err = b.post(at, form, &answer, "Authorization", basic(lab.MachineID, b.server.Machine), "DPoP", proof)
	if err == nil && answer.Type != "DPoP" {
		err = fmt.Errorf("the server gave a token of type %q", answer.Type)
	}
	return answer.Token, err
}

// post sends a form and reads the JSON of the answer.
func (b *bench) post(at string, form url.Values, into any, headers ...string) error {
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, at, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := b.server.HTTP.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %d: %.300s", at, res.StatusCode, body)
	}
	return json.Unmarshal(body, into)
}

// verifyCost returns the processor time of verifying one signature by ES256 in the standard library, in µs.
func verifyCost() (float64, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte("a proof"))
	sig, err := key.Sign(rand.Reader, sum[:], nil)
	if err != nil {
		return 0, err
	}
	return costOf(func() error {
		if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], sig) {
			return fmt.Errorf("a good signature is refused")
		}
		return nil
	})
}

// signCost is verifyCost for making one.
func signCost() (float64, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte("an ID token"))
	return costOf(func() error {
		_, err := key.Sign(rand.Reader, sum[:], crypto.SHA256)
		return err
	})
}

// costOf returns the processor time of do in µs.
func costOf(do func() error) (float64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadTime()
	if err != nil {
		return 0, err
	}
	n := 0
	for until := time.Now().Add(length() / 4); time.Now().Before(until); n++ {
		if err := do(); err != nil {
			return 0, err
		}
	}
	after, err := threadTime()
	return float64((after - before).Nanoseconds()) / 1000 / float64(max(n, 1)), err
}

// threadTime is the processor time of this thread. (getrusage(2), RUSAGE_THREAD)
func threadTime() (time.Duration, error) {
	const thread = 1
	var used syscall.Rusage
	if err := syscall.Getrusage(thread, &used); err != nil {
		return 0, err
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
