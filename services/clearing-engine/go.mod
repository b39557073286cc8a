module github.com/liquida/liquida/services/clearing-engine

go 1.26.0

require github.com/liquida/liquida/platform v0.0.0
require github.com/liquida/liquida/proto v0.0.0

replace github.com/liquida/liquida/platform => ../../platform
replace github.com/liquida/liquida/proto => ../../proto
