package secret_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// An identifier is typed after commands, where - begins an option.
func TestIDNeverBeginsWithADash(t *testing.T) {
	t.Parallel()
	first := map[byte]bool{}
	for b := range 256 {
		random := append([]byte{byte(b)}, bytes.Repeat([]byte{0xfb}, 15)...)
		id, err := secret.ID(bytes.NewReader(random), 16)
		if err != nil || len(id) != 22 || id[0] == '-' {
			t.Errorf("ID of %d = %q, %v, want 22 characters that do not begin with -", b, id, err)
		}
		first[id[0]] = true
	}
	if len(first) != 63 {
		t.Errorf("there are %d beginnings, want 63", len(first))
	}
}

func TestStringHides(t *testing.T) {
	t.Parallel()
	s := secret.New("hunter2-hunter2")
	type holder struct{ S secret.String }
	js, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zapcore.EncoderConfig{}), zapcore.AddSync(&log), zap.DebugLevel)).
		Info("x", zap.Any("a", s), zap.Stringer("b", s), zap.Any("c", holder{s}), zap.Any("d", &s))
	for name, out := range map[string]string{
		"%v": fmt.Sprintf("%v", s), "%+v": fmt.Sprintf("%+v", holder{s}), "%#v": fmt.Sprintf("%#v", s), "%s": fmt.Sprintf("%s", s),
		"%q":      fmt.Sprintf("%q", s), //nolint:gocritic // each verb is the case
		"pointer": fmt.Sprintf("%v", &s), "JSON": string(js), "zap": log.String(),
	} {
		if strings.Contains(out, "hunter2") || !strings.Contains(out, "redacted") {
			t.Errorf("%s shows %s", name, out)
		}
	}
	if s.Reveal() != "hunter2-hunter2" || !s.Equal("hunter2-hunter2") || s.Equal("hunter2") {
		t.Error("Reveal does not return the secret")
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	tok, err := secret.NewToken(rand.Reader, secret.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	if !secret.IsToken(secret.AccessToken, tok) {
		t.Fatalf("IsToken of a fresh token is false")
	}
	if secret.IsToken(secret.RefreshToken, tok) {
		t.Error("an access token passes for a refresh token")
	}
	t.Run("attack 71: a token that is nearly right", func(t *testing.T) {
		t.Parallel()
		swap := func(i int) string {
			b := []byte(tok)
			if b[i] == 'A' {
				b[i] = 'B'
			} else {
				b[i] = 'A'
			}
			return string(b)
		}
		bad := []string{
			"", tok[:len(tok)-1], tok + "A", tok + "=", " " + tok, tok + "\n", strings.ToUpper(tok), strings.ToLower(tok),
			strings.Replace(tok, "_", "%5F", 1), strings.Replace(tok, "_", "%255F", 1),
		}
		for i := range tok {
			bad = append(bad, swap(i))
		}
		for _, b := range bad {
			if b != tok && secret.IsToken(secret.AccessToken, b) {
				t.Errorf("IsToken(%q) = true", b)
			}
		}
	})
}

func TestTokenWithoutRandomness(t *testing.T) {
	t.Parallel()
	if _, err := secret.NewToken(strings.NewReader("short"), secret.AccessToken); err == nil {
		t.Error("NewToken gave a token without randomness")
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	const alphabet, n = "ABCDE", 20_000
	got, err := secret.Text(rand.Reader, alphabet, n)
	if err != nil || len(got) != n {
		t.Fatalf("Text has %d characters, %v, want %d", len(got), err, n)
	}
	for _, c := range alphabet {
		if k := strings.Count(got, string(c)); k < n*18/100 || k > n*22/100 {
			t.Errorf("%c stands in %d of %d places, want about a fifth", c, k, n)
		}
	}
	if strings.Trim(got, alphabet) != "" {
		t.Error("Text has characters that are not in the alphabet")
	}
	if _, err := secret.Text(strings.NewReader("x"), alphabet, 8); err == nil {
		t.Error("Text gave a code without randomness")
	}
}

func TestTokensAreUnique(t *testing.T) {
	t.Parallel()
	t.Run("attack 72: ten thousand tokens", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		var ones [64]int
		const n = 10_000
		for range n {
			tok, err := secret.NewToken(rand.Reader, secret.Code)
			if err != nil {
				t.Fatal(err)
			}
			if seen[tok] {
				t.Fatal("a token came twice")
			}
			seen[tok] = true
			for i := range 32 { // the first 32 characters carry 192 bits: none may be stuck
				if tok[len(secret.Code)+i] >= 'a' {
					ones[i]++
				}
			}
		}
		for i := range 32 {
			if ones[i] < n*30/100 || ones[i] > n*60/100 {
				t.Errorf("position %d is a lower-case letter in %d of %d tokens", i, ones[i], n)
			}
		}
	})
}

func TestKeyring(t *testing.T) {
	t.Parallel()
	k1, k2 := bytes.Repeat([]byte{1}, secret.KeySize), bytes.Repeat([]byte{2}, secret.KeySize)
	older, newer, stranger := ring(t, k1), ring(t, k2, k1), ring(t, k2)
	sealed, err := older.Seal("key/1", []byte("private"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := newer.Open("key/1", sealed); err != nil || string(got) != "private" {
		t.Errorf("after rotation Open = %q, %v", got, err)
	}
	for name, open := range map[string]func() ([]byte, error){
		"without the key":     func() ([]byte, error) { return stranger.Open("key/1", sealed) },
		"for another purpose": func() ([]byte, error) { return older.Open("key/2", sealed) },
		"cut":                 func() ([]byte, error) { return older.Open("key/1", sealed[:len(sealed)-1]) },
		"empty":               func() ([]byte, error) { return older.Open("key/1", nil) },
		"flipped": func() ([]byte, error) {
			c := bytes.Clone(sealed)
			c[len(c)-1] ^= 1
			return older.Open("key/1", c)
		},
	} {
		if got, err := open(); !errors.Is(err, secret.ErrSealed) {
			t.Errorf("%s: Open = %q, %v, want ErrSealed", name, got, err)
		}
	}
	if bytes.Equal(older.Derive("a"), older.Derive("b")) || !bytes.Equal(newer.DeriveAll("a")[1], older.Derive("a")) {
		t.Error("derived keys do not follow purpose and ring")
	}
	if _, err := secret.NewKeyring([]byte("short")); err == nil {
		t.Error("NewKeyring accepts a short key")
	}
	if _, err := secret.NewKeyring(); err == nil {
		t.Error("NewKeyring accepts an empty ring")
	}
}

func ring(t *testing.T, keys ...[]byte) *secret.Keyring {
	t.Helper()
	k, err := secret.NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestSealWithToken(t *testing.T) {
	t.Parallel()
	sealed, err := secret.SealWithToken("token", "answer", []byte("data"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := secret.OpenWithToken("token", "answer", sealed); err != nil || string(got) != "data" {
		t.Errorf("OpenWithToken = %q, %v", got, err)
	}
	for _, c := range [][2]string{{"other", "answer"}, {"token", "other"}} {
		if _, err := secret.OpenWithToken(c[0], c[1], sealed); !errors.Is(err, secret.ErrSealed) {
			t.Errorf("OpenWithToken(%q, %q) error = %v, want ErrSealed", c[0], c[1], err)
		}
	}
	if _, err := secret.OpenWithToken("token", "answer", nil); !errors.Is(err, secret.ErrSealed) {
		t.Errorf("OpenWithToken of nothing error = %v, want ErrSealed", err)
	}
}

func TestMACBindsItsParts(t *testing.T) {
	t.Parallel()
	if bytes.Equal(secret.MAC([]byte("k"), "ab", "c"), secret.MAC([]byte("k"), "a", "bc")) {
		t.Error("MAC does not tell where a part ends")
	}
}

func FuzzIsToken(f *testing.F) {
	f.Add("ghat_")
	f.Fuzz(func(t *testing.T, s string) {
		if secret.IsToken(secret.AccessToken, s) && len(s) != 54 {
			t.Errorf("IsToken(%q) with %d bytes", s, len(s))
		}
	})
}

// TestMACKey: a prepared key gives the MAC of RFC 2104 however often and by however many it is used.
func TestMACKey(t *testing.T) {
	t.Parallel()
	key := []byte("a key of a test, long enough for one")
	prepared := secret.NewMACKey(key)
	parts := []string{"kind", "", "id\x00", strings.Repeat("x", 300)}
	reference := hmac.New(sha256.New, key)
	for _, p := range parts {
		reference.Write([]byte{0, 0, byte(len(p) >> 8), byte(len(p))})
		reference.Write([]byte(p))
	}
	want := reference.Sum(nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if got := prepared.MAC(parts...); !bytes.Equal(got[:], want) {
					t.Errorf("MAC = %x, want %x", got, want)
				}
				if other := prepared.MAC("kind", "id"); bytes.Equal(other[:], want) {
					t.Error("other parts have the same MAC")
				}
			}
		})
	}
	all.Wait()
	if got := secret.MAC(key, parts...); !bytes.Equal(got, want) {
		t.Errorf("the function MAC = %x, want %x", got, want)
	}
}

// TestChecksum: tokens end with the CRC-32 of IEEE, as secret scanners know it.
func TestChecksum(t *testing.T) {
	t.Parallel()
	token, err := secret.NewToken(rand.Reader, secret.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	body, sum := token[:len(token)-6], token[len(token)-6:]
	if want := base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(body)))); sum != want {
		t.Errorf("token %s ends with %s, want %s", token, sum, want)
	}
}
