package keystore_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// rotate takes a step by the API, and returns what it answers.
func (c *certificates) rotate(id, step string) keystore.Rotation {
	c.Helper()
	status, body := c.call(http.MethodPost, certificatePath+"/"+id+"/"+step, nil)
	c.want(step, status, body, http.StatusOK)
	return c.rotation(body)
}

// rotation reads an answer, which must not have a private key.
func (c *certificates) rotation(body string) (out keystore.Rotation) {
	c.Helper()
	if err := json.Unmarshal([]byte(body), &out); err != nil || out.ID == "" || strings.Contains(strings.ToLower(body), "private") {
		c.Fatalf("the answer %s: %v", body, err)
	}
	for _, part := range []*keystore.PublicPart{out.Current, out.Next, out.Former} {
		if part == nil {
			continue
		}
		raw, err := base64.StdEncoding.DecodeString(part.PublicKey)
		if err != nil {
			c.Fatal(err)
		}
		block, rest := pem.Decode(raw)
		if block == nil || block.Type != "CERTIFICATE" || len(rest) != 0 {
			c.Fatalf("the public part is %q", raw)
		}
		if sum := sha256.Sum256(block.Bytes); part.SHA256 != hex.EncodeToString(sum[:]) || part.NotAfter.IsZero() {
			c.Errorf("the fingerprint and end of a certificate are %s, %v", part.SHA256, part.NotAfter)
		}
	}
	return out
}

// TestRotateByAPI: the whole rotation of a key pair and of Gatehouse's own, with what each stage answers and each event
// says.
func TestRotateByAPI(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	for _, who := range []struct{ id, name string }{{id, "sign"}, {keystore.OwnID, ""}} {
		get := func() (keystore.Rotation, string) {
			status, body := c.call(http.MethodGet, certificatePath+"/"+who.id+"/rotation", nil)
			c.want("GET", status, body, http.StatusOK)
			return c.rotation(body), body
		}
		start, _ := get()
		if start.ID != who.id || start.Name != who.name || start.Stage != keystore.Idle || start.NextStep != keystore.Announce ||
			start.Next != nil || start.Former != nil || !start.Current.Since.IsZero() {
			t.Errorf("before: %+v", start)
		}
		announced := c.rotate(who.id, "rotation/announce")
		if announced.Stage != keystore.Announced || announced.NextStep != keystore.Switch || *announced.Current != *start.Current ||
			announced.Next == nil || announced.Next.SHA256 == start.Current.SHA256 || !announced.Next.Since.Equal(c.now) || announced.Former != nil {
			t.Fatalf("announced: %+v", announced)
		}
		if _, body := get(); c.rotation(body).Stage != keystore.Announced {
			t.Errorf("GET after that: %s", body)
		}
		switched := c.rotate(who.id, "rotation/switch")
		if switched.Stage != keystore.Switched || switched.NextStep != keystore.Retire || switched.Current.SHA256 != announced.Next.SHA256 ||
			switched.Next != nil || switched.Former == nil || switched.Former.SHA256 != start.Current.SHA256 || !switched.Former.Since.Equal(c.now) {
			t.Fatalf("switched: %+v", switched)
		}
		retired := c.rotate(who.id, "rotation/retire")
		if retired.Stage != keystore.Idle || retired.NextStep != keystore.Announce || *retired.Current != *switched.Current ||
			retired.Next != nil || retired.Former != nil {
			t.Errorf("retired: %+v", retired)
		}
		c.rotate(who.id, "rotation/announce")
		if renewed := c.rotate(who.id, "renew"); renewed.Stage != keystore.Idle || renewed.Current.SHA256 == retired.Current.SHA256 {
			t.Errorf("renewed in the middle of a rotation: %+v", renewed)
		}
	}
	var reasons []string
	for _, e := range c.events() {
		if e.Type != "configuration.CertificateUpdatedEvent" {
			continue
		}
		if e.Actor != "ops" || e.ClientIP == "" {
			t.Errorf("an event of %q at %q", e.Actor, e.ClientIP)
		}
		reasons = append(reasons, e.Reason)
	}
	var want []string
	for _, of := range []string{"sign", "Gatehouse's own key pair"} {
		for _, what := range []string{
			"the next keys are published for", "the next keys are used for", "the former keys are retired of",
			"the next keys are published for", "new keys of",
		} {
			want = append(want, what+" "+of)
		}
	}
	if !slices.Equal(reasons, want) {
		t.Errorf("the events say %q", reasons)
	}
}

// TestRotationsByAPI: the list has every pair with its stage, Gatehouse's own first once it is made.
func TestRotationsByAPI(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.other, year)))
	id := c.add(pairOf("sign", "RSA", privateOf(m.rsa), certOf(m.rsa, year)))
	list := func() (out []string) {
		status, body := c.call(http.MethodGet, certificatePath+"/rotations", nil)
		var all []keystore.Rotation
		if err := json.Unmarshal([]byte(body), &all); status != http.StatusOK || err != nil ||
			strings.Contains(strings.ToLower(body), "private") {
			t.Fatalf("the list = %d %s", status, body)
		}
		for _, r := range all {
			out = append(out, strings.Join([]string{r.ID, r.Name, r.KeyType, string(r.Stage), string(r.NextStep)}, " "))
		}
		return out
	}
	want := []string{"partner CERTIFICATE fixed ", "sign RSA idle announce"}
	if got := list(); len(got) != 2 || !strings.HasSuffix(got[0], want[0]) || got[1] != id+" "+want[1] {
		t.Errorf("the list = %q", got)
	}
	c.rotate(id, "rotation/announce")
	status, body := c.call(http.MethodGet, certificatePath+"/own/rotation", nil) // it is made when it is first asked for
	c.want("Gatehouse's own", status, body, http.StatusOK)
	if got := list(); len(got) != 3 || got[0] != "own  RSA idle announce" || got[2] != id+" sign RSA announced switch" {
		t.Errorf("the list with Gatehouse's own = %q", got)
	}
}

func TestRotationErrors(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	year := c.now.AddDate(1, 0, 0)
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, year)))
	partner := c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.ec, year)))
	steps := []string{"rotation/announce", "rotation/switch", "rotation/retire", "renew"}
	for _, unknown := range []string{"00000000-0000-4000-8000-000000000000", "sign", "OWN", "rotations", "batch"} {
		if status, _ := c.call(http.MethodGet, certificatePath+"/"+unknown+"/rotation", nil); status != http.StatusNotFound {
			t.Errorf("GET %s = %d, want 404", unknown, status)
		}
		for _, step := range steps {
			status, body := c.call(http.MethodPost, certificatePath+"/"+unknown+"/"+step, nil)
			c.want(unknown+" "+step, status, body, http.StatusNotFound)
		}
	}
	for _, step := range steps {
		status, body := c.call(http.MethodPost, certificatePath+"/"+partner+"/"+step, nil)
		if c.want(step+" of a certificate alone", status, body, http.StatusConflict); !strings.Contains(body, "no private key") {
			t.Errorf("%s of a certificate alone: %s", step, body)
		}
		if status, _ := c.call(http.MethodGet, certificatePath+"/"+id+"/"+step, nil); status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s = %d, want 405", step, status)
		}
	}
	// At each stage one step leads on.
	for i, stage := range []string{"idle", "announced", "switched"} {
		for j, step := range steps[:3] {
			if j == i {
				continue
			}
			status, body := c.call(http.MethodPost, certificatePath+"/"+id+"/"+step, nil)
			_, next, _ := strings.Cut(steps[i], "/")
			if status != http.StatusConflict || !strings.Contains(body, `"details":{"next_step":"`+next+`","stage":"`+stage+`"}`) ||
				!strings.Contains(body, "the next step is "+next) {
				t.Errorf("%s at the stage %s = %d %s", step, stage, status, body)
			}
		}
		c.rotate(id, steps[i])
	}
}

// TestRotationHonoursIfMatch: who has read an older state takes no step.
func TestRotationHonoursIfMatch(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	path := certificatePath + "/" + id
	stale := c.tag(path + "/rotation")
	if status, _ := c.call(http.MethodGet, path+"/rotation", nil, "If-None-Match", stale); status != http.StatusNotModified {
		t.Errorf("GET of what the client has = %d", status)
	}
	c.rotate(id, "renew")
	before := len(c.events())
	for _, step := range []string{"/rotation/announce", "/renew"} {
		status, body := c.call(http.MethodPost, path+step, nil, "If-Match", stale)
		c.want(step+" with the tag of before", status, body, http.StatusPreconditionFailed)
	}
	if after := len(c.events()); after != before {
		t.Errorf("%d events of what was refused", after-before)
	}
	status, body := c.call(http.MethodPost, path+"/rotation/announce", nil, "If-Match", c.tag(path+"/rotation"))
	c.want("with the tag of now", status, body, http.StatusOK)
}

// TestRotateAtOnce: of administrators who announce at once, one has announced. The others read which stage it is at.
func TestRotateAtOnce(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	t.Run("attack 882: by several at once", func(t *testing.T) {
		errs := make([]error, 20)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() {
				errs[i] = c.service.KeyPairs().Rotate(t.Context(), id, keystore.Announce, audit.Actor{ID: "ops"})
			})
		}
		all.Wait()
		won := 0
		for _, err := range errs {
			switch at := new(keystore.StageError); {
			case err == nil:
				won++
			case !errors.As(err, &at) || at.Stage != keystore.Announced:
				t.Errorf("Rotate = %v", err)
			}
		}
		if won != 1 {
			t.Errorf("%d of 20 have announced, want 1", won)
		}
	})
}

// TestAttacksOnRotation: no one without the right takes a step, or makes an administrator's browser take one.
func TestAttacksOnRotation(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	path := certificatePath + "/" + id
	steps := []string{"/rotation/announce", "/rotation/switch", "/rotation/retire", "/renew"}
	unchanged := func(t *testing.T, before string) {
		t.Helper()
		if _, after := c.call(http.MethodGet, path+"/rotation", nil); after != before {
			t.Errorf("the pair is now %s", after)
		}
	}
	_, before := c.call(http.MethodGet, path+"/rotation", nil)
	t.Run("attack 880: without the right", func(t *testing.T) {
		for _, step := range append(steps, "/rotation", "s") {
			target, method := path+step, http.MethodPost
			if step == "/rotation" {
				method = http.MethodGet
			} else if step == "s" {
				target, method = certificatePath+"/rotations", http.MethodGet
			}
			for who, want := range map[string]int{"": 401, "Basic b3RoZXI6c2VjcmV0": 403} { // other:secret
				if status, body := c.call(method, target, nil, "Authorization", who); status != want || strings.Contains(body, "sign") {
					t.Errorf("%s %s by %q = %d %s, want %d", method, target, who, status, body, want)
				}
			}
		}
		unchanged(t, before)
	})
	t.Run("attack 881: the page of another site makes the browser of an administrator send the request", func(t *testing.T) {
		for _, headers := range [][]string{
			{"Origin", "https://evil.example"},
			{"Origin", "null"},
			{"Sec-Fetch-Site", "cross-site"},
			{"Sec-Fetch-Site", "same-site"},
		} {
			for _, step := range steps {
				if status, body := c.call(http.MethodPost, path+step, nil, headers...); status != http.StatusForbidden {
					t.Errorf("%s with %s = %d %s, want 403", step, headers, status, body)
				}
			}
		}
		unchanged(t, before)
	})
	t.Run("attack 882: steps out of order, to lose the keys that are in use", func(t *testing.T) {
		c.rotate(id, "rotation/announce")
		c.rotate(id, "rotation/switch")
		_, before := c.call(http.MethodGet, path+"/rotation", nil)
		for _, step := range steps[:2] { // a further pair of keys would push the former one out
			status, body := c.call(http.MethodPost, path+step, nil)
			c.want(step, status, body, http.StatusConflict)
		}
		unchanged(t, before)
	})
}
