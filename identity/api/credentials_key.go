package api

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	ivMemory  = 24 * time.Hour // how long an initialization vector is known after its use
	tagBytes  = 16
	maxCipher = 4<<10 + tagBytes // bytes of an encrypted password
)

// errEncryption is every reason why an encrypted password cannot be read.
var errEncryption = errors.New("the encrypted password cannot be read")

// CheckCredentialsKey says what is wrong with a key of the credentials API.
func CheckCredentialsKey(text string) error {
	_, err := ParseCredentialsKey(text)
	return err
}

// ParseCredentialsKey reads a key of 128, 192 or 256 bits in hexadecimal digits.
func ParseCredentialsKey(text string) (secret.String, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 16 && len(raw) != 24 && len(raw) != 32 {
		return secret.String{}, errors.New("want 32, 48 or 64 hexadecimal digits: `openssl rand -hex 32` makes a key")
	}
	return secret.New(string(raw)), nil
}

// opener decrypts passwords: AES-GCM without padding and with a tag of 128 bits. (NIST SP 800-38D)
type opener struct {
	id    string // of the key; it is not secret
	aeads map[int]cipher.AEAD
}

// newOpener returns an opener for the bytes of a key, or nil for an empty key.
func newOpener(key secret.String) (*opener, error) {
	if key.IsZero() {
		return nil, nil //nolint:nilnil // the API is off
	}
	block, err := aes.NewCipher([]byte(key.Reveal()))
	if err != nil {
		return nil, err
	}
	o := &opener{id: string(secret.MAC([]byte(key.Reveal()), "gatehouse credentials key id v1")), aeads: map[int]cipher.AEAD{}}
	for _, size := range []int{8, 12, 16} { // bytes of an initialization vector
		if o.aeads[size], err = cipher.NewGCMWithNonceSize(block, size); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// open returns the password and the name of its initialization vector, or errEncryption.
func (o *opener) open(password, iv string) (plain secret.String, name string, err error) {
	nonce, err := strictBase64(iv, 16)
	if err != nil {
		return plain, "", err
	}
	aead := o.aeads[len(nonce)]
	if aead == nil {
		return plain, "", errEncryption
	}
	sealed, err := strictBase64(password, maxCipher)
	if err != nil {
		return plain, "", err
	}
	raw, err := aead.Open(nil, nonce, sealed, nil)
	if err != nil {
		return plain, "", errEncryption
	}
	return secret.New(string(raw)), secret.Hash(o.id + string(nonce)), nil
}

// strictBase64 reads standard Base64 with its padding and without line ends. (RFC 4648 3.1, 3.2, 3.5)
func strictBase64(s string, most int) ([]byte, error) {
	if len(s) > base64.StdEncoding.EncodedLen(most) || strings.ContainsAny(s, "\r\n") {
		return nil, errEncryption
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		return nil, errEncryption
	}
	return raw, nil
}

// useIV remembers an initialization vector, or returns errEncryption when it was used before. A password that cannot be
// decrypted uses up no initialization vector.
func (a *API) useIV(ctx context.Context, name string) error {
	now := a.deps.Now()
	return a.deps.Store.Update(ctx, func(tx storage.Tx) error {
		switch rec, err := usedIVs.Get(tx, name); {
		case err == nil && rec.Until.After(now):
			return errEncryption
		case err != nil && !errors.Is(err, storage.ErrNotFound):
			return err
		}
		until := now.Add(ivMemory)
		return usedIVs.Put(tx, name, ivRecord{until}, until)
	})
}
