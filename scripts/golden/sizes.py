"""The numbers that the random checkpoints share: as small as a model can be."""

H, WIDTH, DENSE, SHARED = 20, 8, 14, 12  # hidden size; widths of MLPs
VOCAB = 48

TEXT = dict(
    vocab_size=VOCAB,
    hidden_size=H,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=128,
    bos_token_id=None,
    eos_token_id=None,
    pad_token_id=None,
    tie_word_embeddings=False,
)

# The first of three layers is dense.
DENSE_FIRST = dict(TEXT, num_hidden_layers=3, intermediate_size=DENSE, moe_intermediate_size=WIDTH)
WORDS = ["dense", "sparse", "sparse"]

EIGHT = dict(num_experts=8, num_experts_per_tok=3)
EIGHT_LOCAL = dict(num_local_experts=8, num_experts_per_tok=3)

# 2 of 4 groups, 4 of 16 experts: so many that each has to be smaller.
SMALL = dict(hidden_size=16, moe_intermediate_size=6)
GROUPS = dict(n_routed_experts=16, num_experts_per_tok=4, n_group=4, topk_group=2,
              routed_scaling_factor=2.5, norm_topk_prob=True, n_shared_experts=1)

# Attention with low-rank projections, and with an index of keys.
LATENT = dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4,
              v_head_dim=6, num_key_value_heads=2)
INDEXED = dict(LATENT, index_topk=64, index_head_dim=8, index_n_heads=2)

# Linear attention of the Qwen kind.
LINEAR = dict(linear_conv_kernel_dim=2, linear_key_head_dim=4, linear_value_head_dim=4,
              linear_num_key_heads=1, linear_num_value_heads=2, head_dim=8,
              layer_types=["linear_attention", "full_attention"])

# A vision tower that is never run.
VISION = dict(depth=1, hidden_size=8, intermediate_size=8, num_heads=2, out_hidden_size=H,
              patch_size=2, temporal_patch_size=1, spatial_merge_size=1)
IMAGE = dict(image_token_id=60, video_token_id=61, vision_start_token_id=62,
             vision_end_token_id=63)
