package identity

import (
	"context"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
)

// VerifyPasskey checks a passkey's answer to a challenge as a sign-in does, but writes nothing.
func (s *Service) VerifyPasskey(ctx context.Context, challenge []byte, answer string) error {
	said, err := passkey.ReadAssertion(answer)
	if err != nil {
		return err
	}
	_, set, err := s.StepUp.Passkeys.OwnerOf(ctx, said.RawID)
	if err != nil {
		return err
	}
	_, _, err = s.StepUp.Passkeys.Verify(&set, challenge, said, false)
	return err
}
