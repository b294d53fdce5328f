"""Figure 1: regret on synthetic matrices of five true ranks, every policy.

Command:
  python -m launch.figure --config=configs/figure1.py --workdir=results/figure1

With --config.horizon_reading=true_rank the horizon is K* (N + D - K*) in the panel of true rank K*.
`oracle` knows the true covariance, `mean_oracle` the moments of the matrix itself. Each of them
picks by Thompson draws, as in the paper, by IDS and greedily. `ids_paper` is IDS to the letter.

Expected (seeds 0-9), regret at 100 % of the horizon of 2,600, by true rank:
                          1      5     10     15     20
  ids                     308    230    273    325    423
  ids_paper               370    562    784   1014    987
  thompson                358    302    417    521    678
  greedy                  326    267    317    392    491
  oracle                  343    273    378    500    622
  oracle_ids              318    217    244    291    347
  oracle_greedy           324    217    265    302    383
  mean_oracle             341    257    359    461    592
  mean_oracle_ids         311    206    230    267    313
  mean_oracle_greedy      316    221    262    292    334
  empirical               473    582    826   1003   1221
  optspace                490    720   1041   1218   1296
  particle                456    465    657    786    952
  icf                     444    404    668    853   1033
  random                 1072   2062   2881   3510   4070

Each baseline's own settings were chosen on development seeds 1000-1003 at true ranks 1, 5 and 20,
by the mean regret at 100 % of the horizon over the three (the geometric mean chooses the same):
  python -m launch.tune --config=configs/figure1.py --policy=POLICY --grid="FIELD=VALUE,VALUE ..." \
    --config.first_seed=1000 --config.seeds=4 --config.panel_values="(1,5,20)"

  empirical                                     rank 1   rank 5  rank 20     mean
    strength=1 floor=0.03                        663.6    843.9   1924.7   1144.1
    strength=1 floor=0.1                         577.5    703.9   1485.5    922.3
    strength=1 floor=0.3                         514.4    593.7   1220.2    776.1
    strength=2 floor=0.5                         485.2    559.3   1200.5    748.3  chosen
    strength=2 floor=0.8                         485.8    614.2   1296.9    799.0
    strength=2 floor=1.2                         490.5    715.1   1402.0    869.2
    strength=5 floor=0.03                        656.6    771.6   1782.8   1070.3
    strength=5 floor=0.1                         594.9    651.6   1360.8    869.1
    strength=5 floor=0.3                         503.0    555.9   1188.3    749.1
    strength=5 floor=0.5                         481.5    590.5   1191.7    754.6
    strength=5 floor=0.8                         479.6    633.5   1281.5    798.2
    strength=5 floor=1.2                         491.3    727.8   1430.9    883.3
    strength=20 floor=0.03                       647.6    812.6   1755.7   1072.0
    strength=20 floor=0.1                        592.9    705.0   1444.5    914.2
    strength=20 floor=0.3                        516.8    622.1   1285.9    808.2
  optspace
    rank=1 penalty=0                             465.7    728.5   1344.1    846.1  chosen
    rank=1 penalty=0.03                          498.2    760.6   1401.3    886.7
    rank=1 penalty=0.1                           517.8    790.6   1576.2    961.6
    rank=2 penalty=0                             629.8    855.5   1682.5   1055.9
    rank=2 penalty=0.03                          649.7    799.5   1368.1    939.1
    rank=2 penalty=0.1                           701.8    882.6   1571.1   1051.8
    rank=3 penalty=0                             692.4    941.4   1858.9   1164.2
    rank=3 penalty=0.03                          685.8    847.3   1628.2   1053.8
    rank=3 penalty=0.1                           749.1    904.9   1677.2   1110.4
    rank=5 penalty=0                             779.6    920.7   2090.9   1263.7
    rank=5 penalty=0.03                          750.7    714.6   1686.1   1050.5
    rank=5 penalty=0.1                           797.7    894.1   2034.9   1242.2
    rank=5 guess=True penalty=0                  487.7    776.0   1398.7    887.5
    rank=5 guess=True penalty=0.01               503.3    839.1   1379.5    907.3
  particle
    rank=2 noise_variance=0.1 particles=30       423.7    936.7    854.7    738.3
    rank=2 noise_variance=0.3 particles=30       471.2    490.3    876.1    612.5
    rank=2 noise_variance=0.3 particles=100 factor_variance=0.5
                                                 469.7    485.0    878.0    610.9
    rank=2 noise_variance=0.3 particles=100      472.8    505.2    955.9    644.6
    rank=2 noise_variance=1.0 particles=30       610.5    645.8    951.5    735.9
    rank=3 noise_variance=0.1 particles=30       458.3    461.1    925.7    615.1
    rank=3 noise_variance=0.1 particles=100      464.0    458.7    906.8    609.8  chosen
    rank=3 noise_variance=0.3 particles=30       489.4    501.6    922.6    637.8
    rank=3 noise_variance=0.3 particles=100      492.4    501.5    981.0    658.3
    rank=5 noise_variance=0.1 particles=30       495.2    466.3   1069.7    677.1
    rank=5 noise_variance=0.3 particles=30       524.9    510.6   1091.8    709.1
    rank=5 noise_variance=1.0 particles=30       652.2    718.1   1112.6    827.7
    rank=10 noise_variance=0.1 particles=30      571.2    654.1   1472.4    899.3
    rank=10 noise_variance=0.3 particles=30      577.3    654.9   1264.9    832.4
    rank=10 noise_variance=1.0 particles=30      713.9    852.8   1198.0    921.6
  icf (a variance that is not given is learned)
    rank=2                                       436.2    456.0    943.6    612.0
    rank=2 noise_variance=0.3                    495.8    495.3    904.7    632.0
    rank=5                                       463.2    392.4    957.6    604.4  chosen
    rank=5 noise_variance=0.3                    553.9    460.8    922.4    645.7
    rank=10                                      473.5    464.6   1018.9    652.3
    rank=10 noise_variance=0.3                   591.3    509.0   1017.5    705.9
"""

from ml_collections import config_dict

from configs import synthetic


def get_config() -> config_dict.ConfigDict:
    """The synthetic experiment at five true ranks.

    Fields:
      panel_field: the field whose values are the panels.
      panel_values: its values, one a panel.
      horizon_reading: of the horizon k (N + D - k), `bound` takes k = rank in every panel,
        `true_rank` takes the true rank of the panel.
    """
    config = synthetic.get_config()
    config.policies = (
        "ids,ids_paper,thompson,greedy,oracle,oracle_ids,oracle_greedy,mean_oracle,mean_oracle_ids,"
        "mean_oracle_greedy,empirical,optspace,particle,icf,random"
    )
    config.loadings = "mixed"  # uniform at even seeds, Beta(2, 5) at odd ones
    config.panel_field = "true_rank"
    config.panel_values = (1, 5, 10, 15, 20)
    config.horizon_reading = "bound"
    return config
