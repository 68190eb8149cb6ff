module github.com/gatehouse-id/gatehouse/bench

go 1.26.0

require github.com/gatehouse-id/gatehouse/faults v0.0.0

replace github.com/gatehouse-id/gatehouse/faults => ../faults
