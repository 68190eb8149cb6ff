package dpop

import "github.com/gatehouse-id/gatehouse/storage"

// Every stored record of the package. It is of no use after the expiry, which is that of the proof.
var used = storage.NewTable[struct{}]("authz_dpop") // hash of the key and jti of a proof that was used
