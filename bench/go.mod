module github.com/gatehouse-id/gatehouse/bench

go 1.26.0

require github.com/gatehouse-id/gatehouse/faults v0.0.0

require github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50

replace github.com/gatehouse-id/gatehouse/faults => ../faults
