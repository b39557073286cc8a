module github.com/liquida/liquida/client/liquida

go 1.26.0

require (
	github.com/liquida/liquida/client v0.0.0
	github.com/liquida/liquida/platform v0.0.0
	github.com/spf13/cobra v1.10.2
	golang.org/x/term v0.47.0
)

require (
	github.com/caarlos0/env/v11 v11.4.2 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	github.com/twmb/franz-go v1.22.3 // indirect
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/liquida/liquida/client => ../

replace github.com/liquida/liquida/platform => ../../platform

replace github.com/liquida/liquida/proto => ../../proto
