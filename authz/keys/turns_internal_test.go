package keys

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// waitingSigner signs nothing, and not before it may.
type waitingSigner struct {
	jose.Signer

	began chan<- string
	alg   string
	may   <-chan struct{}
}

func (s *waitingSigner) Sign([]byte) (*jose.JSONWebSignature, error) {
	s.began <- s.alg
	<-s.may
	return nil, errors.New("nothing is signed")
}

// TestRSASignaturesTakeTurns: while many people sign in, one RSA signature runs on each core, and an ES256 signature
// waits for none of them.
func TestRSASignaturesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, may := make(chan string, 16), make(chan struct{})
		k := &Keys{now: time.Now, turns: make(chan struct{}, 2), keys: map[string]*signingKey{}}
		for _, alg := range []string{"RS256", "ES256"} {
			k.keys[alg] = &signingKey{
				keyRecord: keyRecord{Algorithm: alg}, signers: map[string]jose.Signer{TypeIDToken: &waitingSigner{began: began, alg: alg, may: may}},
			}
		}
		done := make(chan error, 16)
		begin := func(alg string, n int) {
			for range n {
				go func() {
					_, err := k.Sign(alg, TypeIDToken, "claims")
					done <- err
				}()
			}
			synctest.Wait()
		}
		begin("RS256", 5)
		if n := len(began); n != 2 {
			t.Errorf("%d RSA signatures run at once with 2 turns", n)
		}
		begin("ES256", 3)
		if n := len(began); n != 5 {
			t.Errorf("%d signatures run at once, want 2 of RSA and 3 of ES256", n)
		}
		close(may)
		for range 8 {
			<-done
		}
		if n := len(began); n != 8 {
			t.Errorf("%d of 8 signatures were made", n)
		}
	})
}
