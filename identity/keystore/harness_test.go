package keystore_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// certificates is the certificate operations over a store of their own.
type certificates struct {
	*testing.T
	service *settings.Service
	store   storage.Store
	handler http.Handler
	logs    *observer.ObservedLogs
	now     time.Time
	apis    []string // that the client has besides configuration
	told    []string // what the owners were told of
}

const certificatePath = "/v2/config/certificates"

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	core, logs := observer.New(zap.DebugLevel)
	c := &certificates{T: t, store: store, logs: logs, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	c.service = c.another(t.Context(), zap.New(core))
	gate := &jsonapi.Gate{
		Log: zap.New(core), Issuer: "https://auth.example.com", Secure: func(*http.Request) bool { return true },
		Authorize: func(r *http.Request, api string) (string, error) {
			switch id, _, ok := r.BasicAuth(); {
			case !ok:
				return "", authn.ErrNoCredentials
			case id != "ops" || api != "configuration":
				return "", authn.ErrNotAllowed
			default:
				return id, nil
			}
		},
		Has: func(_, api string) bool { return slices.Contains(c.apis, api) },
	}
	c.service.OnSignInChange(func(_ storage.Tx, _ audit.Actor, paths []string, _ time.Time) error {
		c.told = paths
		return nil
	})
	c.handler = settings.NewAPI(c.service, gate, nil)
	return c
}

// another is a service over the same store, as during a reload.
func (c *certificates) another(ctx context.Context, log *zap.Logger) *settings.Service {
	c.Helper()
	return c.sealing(ctx, log, 7)
}

// sealing is a service with keys of these bytes, of which the first seals.
func (c *certificates) sealing(ctx context.Context, log *zap.Logger, keys ...byte) *settings.Service {
	c.Helper()
	var raw [][]byte
	for _, k := range keys {
		raw = append(raw, bytes.Repeat([]byte{k}, secret.KeySize))
	}
	ring, err := secret.NewKeyring(raw...)
	if err != nil {
		c.Fatal(err)
	}
	clock := func() time.Time { return c.now }
	s, err := settings.New(ctx, settings.Config{}, settings.Deps{
		Store: c.store, Keyring: ring, Log: log, Now: clock, Events: &audit.Recorder{Random: rand.Reader, Now: clock},
	})
	if err != nil {
		c.Fatal(err)
	}
	return s
}

// call makes a request with credentials. body nil: none. A string goes out as it is.
func (c *certificates) call(method, path string, body any, headers ...string) (int, string) {
	var raw []byte
	switch b := body.(type) {
	case nil:
	case string:
		raw = []byte(b)
	default:
		var err error
		if raw, err = json.Marshal(body); err != nil {
			c.Fatal(err)
		}
	}
	r := httptest.NewRequest(method, "https://auth.example.com"+path, bytes.NewReader(raw))
	r.SetBasicAuth("ops", "secret")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

type fields = map[string]any

// wrapped is a body with one key pair.
func wrapped(pair fields) fields { return fields{"key_pair": pair} }

func pairOf(name, kind, private, public string) fields {
	return fields{"name": name, "key_type": kind, "private_key": private, "public_key": public}
}

// add adds a pair and returns its id.
func (c *certificates) add(pair fields) string {
	c.Helper()
	status, body := c.call(http.MethodPost, certificatePath, wrapped(pair))
	var out struct{ ID string }
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil || len(out.ID) != 36 {
		c.Fatalf("add %v = %d %s", pair["name"], status, body)
	}
	return out.ID
}

// get returns the pair of an id.
func (c *certificates) get(id string) fields {
	c.Helper()
	status, body := c.call(http.MethodGet, certificatePath+"/"+id, nil)
	var out fields
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		c.Fatalf("get %s = %d %s", id, status, body)
	}
	return out
}

// list returns the names that are there, in order.
func (c *certificates) list() (names []string) {
	c.Helper()
	status, body := c.call(http.MethodGet, certificatePath, nil)
	var out []fields
	if err := json.Unmarshal([]byte(body), &out); status != http.StatusOK || err != nil {
		c.Fatalf("list = %d %s", status, body)
	}
	for _, p := range out {
		names = append(names, fmt.Sprint(p["name"]))
	}
	return names
}

func (c *certificates) want(what string, status int, body string, want int) {
	c.Helper()
	if status != want {
		c.Errorf("%s = %d %s, want %d", what, status, body, want)
	}
}

// eventNames returns the types of the events that happened, oldest first.
func (c *certificates) events() (out []audit.Event) {
	c.Helper()
	if err := c.store.View(c.Context(), func(tx storage.Tx) error {
		out = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	}); err != nil {
		c.Fatal(err)
	}
	slices.Reverse(out)
	return out
}

// material are keys that the tests share.
var material = sync.OnceValue(func() (m struct {
	rsa, other *rsa.PrivateKey
	ec         *ecdsa.PrivateKey
},
) {
	var errs [3]error
	m.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	m.other, errs[1] = rsa.GenerateKey(rand.Reader, 2048)
	m.ec, errs[2] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
	return m
})

func armored(kind string, der []byte) string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func privateOf(key crypto.Signer) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return armored("PRIVATE KEY", der)
}

func certOf(key crypto.Signer, until time.Time) string {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: until.AddDate(-1, 0, 0), NotAfter: until,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return armored("CERTIFICATE", der)
}

func publicOf(key crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return armored("PUBLIC KEY", der)
}
