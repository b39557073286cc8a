module github.com/liquida/liquida/examples

go 1.26.0

require github.com/liquida/liquida/client v0.0.0

replace github.com/liquida/liquida/client => ../client

replace github.com/liquida/liquida/platform => ../platform

replace github.com/liquida/liquida/proto => ../proto
