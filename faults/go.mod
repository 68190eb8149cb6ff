module github.com/gatehouse-id/gatehouse/faults

go 1.26.0
