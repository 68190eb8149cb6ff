package workload

import "github.com/gatehouse-id/gatehouse/storage"

// seen has the tokens that were used: hash of the issuer, hash of the jti.
var seen = storage.NewTable[struct{}]("authz_trusted_seen")
