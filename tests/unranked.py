"""Settings of `pipeline=srrag` without the stage that `srrag fit_betr` has to fit first."""

WITHOUT_BETR = (
    "pipeline.rank.fine=null",
    "+pipeline.rank.fused={_target_: FuseFeatures, hits: [hits_fused],"
    " scores: {sparse: found.sparse}, rounds: rounds}",
)
