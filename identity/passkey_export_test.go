package identity

import "context"

// VerifyPasskey checks the answer of a passkey to a challenge, as a sign-in does, and writes nothing.
func (s *Service) VerifyPasskey(ctx context.Context, challenge []byte, answer string) error {
	said, err := readAssertion(answer)
	if err != nil {
		return err
	}
	_, set, err := s.ownerOf(ctx, said.RawID)
	if err != nil {
		return err
	}
	_, _, err = s.verifyPasskey(&set, challenge, said, false)
	return err
}
